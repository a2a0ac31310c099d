"""The connection to a provider: one HTTP client for its models, with its key redacted everywhere.

Imports pydantic-ai, which is slow, so import this module lazily.
"""

import logging
import os
import re
import ssl
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic_ai.exceptions import UsageExtractionFailedWarning

from weft.config.sections import ModelParameters
from weft.llm.providers.access import Access
from weft.llm.providers.kinds import KINDS
from weft.llm.providers.rate_limits import Timing, limits_of
from weft.secrets.registry import Registry, register

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model as ClientModel


LONGEST_MESSAGE = 300
"""Most characters of a provider's message that are shown."""

LONGEST_BEGINNING = 80
"""Most characters of an invalid response that are shown."""

_BLANKS = re.compile(r"\s+")


class Redactor:
    """Redacts the key of one provider in texts, and registers it as a secret of the process."""

    def __init__(self, access: Access) -> None:
        # A registry of its own besides that of the process, from which `forget_all` may remove the key.
        self._registry = Registry()
        if access.key is not None:
            key, name = access.key.reveal(), access.key_variable or "key"
            self._registry.register(key, name)
            register(key, name)

    def clean(self, text: str) -> str:
        """Redact the key in a text."""
        return self._registry.redact(text)

    def beginning(self, text: str) -> str:
        """Redact a text, then return its first characters."""
        cleaned = self.clean(text)
        return cleaned if len(cleaned) <= LONGEST_BEGINNING else f"{cleaned[:LONGEST_BEGINNING]}…"

    def message(self, text: str) -> str:
        """Return the text on one line, redacted before it is truncated, so that no part of a key is left."""
        cleaned = _BLANKS.sub(" ", self.clean(text)).strip()
        if len(cleaned) <= LONGEST_MESSAGE:
            return cleaned
        return f"{cleaned[: LONGEST_MESSAGE - 1]}…"


CONNECT_SECONDS = 10.0
"""Timeout for opening a connection."""

NO_KEY = "no-key"
"""Placeholder for servers without keys, because the client libraries require a key."""


class Connection:
    """The HTTP client, rate limits and redactor that all models of one provider share.

    The limits are also shared with other connections to the same provider in this process.
    """

    def __init__(self, access: Access, timing: Timing) -> None:
        self.access = access
        self.limits = limits_of(access, timing)
        self.redactor = Redactor(access)
        self._kind = KINDS[access.kind]
        silence_loggers()
        self._client = _http_client(access, access.base_url or self._kind.home)
        key = NO_KEY if access.key is None else access.key.reveal()
        self._provider = self._kind.make_provider(access.name, key, access.base_url, self._client)

    def model(self, name: str, parameters: ModelParameters) -> "ClientModel":
        """Return pydantic-ai's model of this name."""
        profile: Any = {}
        if parameters.output is not None:
            profile["supports_json_schema_output"] = parameters.output == "held"
            profile["supports_json_object_output"] = parameters.output == "asked"
        if parameters.has_tools is not None:
            profile["supports_tools"] = parameters.has_tools
        return self._kind.make_model(name, self._provider, profile)

    async def close(self) -> None:
        await self._client.aclose()


def _http_client(access: Access, base_url: str) -> "httpx2.AsyncClient":
    """Create a client with the provider's timeout; it uses no proxy for servers on this machine."""
    import httpx2

    from weft.llm.providers.response_limits import limit_response, request_gzip

    header_hooks = [_drop_foreign_headers] if access.name != access.kind else []
    seconds = access.settings.timeout_seconds
    concurrency = access.settings.concurrency
    return httpx2.AsyncClient(
        verify=_tls_context(*(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))),
        timeout=httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
        limits=httpx2.Limits(max_connections=concurrency, max_keepalive_connections=min(concurrency, 20)),
        trust_env=not is_loopback(base_url),
        event_hooks={"request": [request_gzip, *header_hooks], "response": [limit_response]},
    )


@cache
def _tls_context(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Return the TLS context of all clients; the variables that change it are part of the cache's key."""
    import httpx2

    return httpx2.create_ssl_context()


async def _drop_foreign_headers(request: "httpx2.Request") -> None:
    """Remove headers that the clients add from environment variables meant for OpenAI or Anthropic itself."""
    for name in ("openai-organization", "openai-project", *_custom_headers()):
        request.headers.pop(name, None)


def _custom_headers() -> list[str]:
    lines = [
        line
        for variable in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS")
        for line in os.environ.get(variable, "").splitlines()
    ]
    return [line.partition(":")[0].strip() for line in lines if ":" in line]


def is_loopback(url: str) -> bool:
    """Return True if the address is this machine."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or host == "::1" or host.startswith("127.")


LOGGERS = ("pydantic_ai", "openai", "anthropic", "google_genai", "google", "httpx2", "httpcore2")
"""Loggers of libraries. Without a handler Python would print their records to stderr, although weft's errors
contain the same information. An application that configures logging still gets the records."""


def silence_loggers() -> None:
    """Keep the libraries from logging to stderr. Idempotent."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            logger.addHandler(logging.NullHandler())
    # weft replaces an invalid usage in a response with an estimate, and marks it as estimated.
    warnings.filterwarnings("ignore", category=UsageExtractionFailedWarning)
