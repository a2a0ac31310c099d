"""The connection to a provider: one HTTP client for its models, with its key redacted everywhere.

Imports pydantic-ai: import it when a model is asked.
"""

import logging
import os
import re
import warnings
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic_ai.exceptions import UsageExtractionFailedWarning

from weft.config.sections import ModelParameters
from weft.llm.providers.access import Access
from weft.llm.providers.rate_limits import Timing, limits_of
from weft.secrets.registry import Registry, register

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model as Asked


LONGEST_MESSAGE = 300
"""Characters of what a provider says that are passed on."""

LONGEST_BEGINNING = 80
"""Characters of what came that are shown when it is no answer."""

_BLANKS = re.compile(r"\s+")


class Redactor:
    """Takes the key of one provider out of texts, and makes it known as a secret to everything else."""

    def __init__(self, access: Access) -> None:
        # One of its own beside that of the process: what is said here does not depend on what others forget.
        self._registry = Registry()
        if access.key is not None:
            key, name = access.key.reveal(), access.key_variable or "key"
            self._registry.register(key, name)
            register(key, name)

    def clean(self, text: str) -> str:
        """The text without the key."""
        return self._registry.redact(text)

    def beginning(self, text: str) -> str:
        """The first characters of a text that may be cut anywhere; the key is taken out before that."""
        cleaned = self.clean(text)
        return cleaned if len(cleaned) <= LONGEST_BEGINNING else f"{cleaned[:LONGEST_BEGINNING]}…"

    def message(self, text: str) -> str:
        """The text on one line, without the key and not too long; cut last, so that no half of it is left."""
        cleaned = _BLANKS.sub(" ", self.clean(text)).strip()
        if len(cleaned) <= LONGEST_MESSAGE:
            return cleaned
        return f"{cleaned[: LONGEST_MESSAGE - 1]}…"


CONNECT_SECONDS = 10.0

NO_KEY = "no-key"
"""What clients that insist on a key get when the server needs none."""

_HOME = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
}
"""Said and not left to the clients: theirs can be changed by variables that weft does not know."""


class Connection:
    """What all models of one provider share: the HTTP client, the limits, and what must not be said.

    The limits are shared with every other connection to the provider in this process.
    """

    def __init__(self, access: Access, timing: Timing) -> None:
        self.access = access
        self.limits = limits_of(access, timing)
        self.redactor = Redactor(access)
        self._base_url = access.base_url or _HOME[access.kind]
        _keep_quiet()
        self._client = _http_client(access, self._base_url)
        self._provider = self._made_provider()

    def model(self, name: str, parameters: ModelParameters) -> "Asked":
        """The model of that name, in pydantic-ai's form."""
        profile: Any = {}
        if parameters.output is not None:
            profile["supports_json_schema_output"] = parameters.output == "held"
            profile["supports_json_object_output"] = parameters.output == "asked"
        if parameters.has_tools is not None:
            profile["supports_tools"] = parameters.has_tools
        if self.access.kind == "openai":
            from pydantic_ai.models.openai import OpenAIChatModel

            profile["openai_chat_streaming_requires_finish_reason"] = True
            return OpenAIChatModel(name, provider=self._provider, profile=profile)
        if self.access.kind == "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel

            return AnthropicModel(name, provider=self._provider, profile=profile)
        from pydantic_ai.models.google import GoogleModel

        return GoogleModel(name, provider=self._provider, profile=profile)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _made_provider(self) -> Any:
        """The provider in pydantic-ai's form; its client retries nothing, for we do."""
        key = NO_KEY if self.access.key is None else self.access.key.reveal()
        if self.access.kind == "openai":
            return self._openai(key)
        if self.access.kind == "anthropic":
            from anthropic import AsyncAnthropic
            from pydantic_ai.providers.anthropic import AnthropicProvider

            client = AsyncAnthropic(
                api_key=key,
                base_url=self._base_url,
                max_retries=0,
                timeout=self._client.timeout,
                http_client=self._client,
            )
            return AnthropicProvider(anthropic_client=client)
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleProvider(api_key=key, base_url=self._base_url, http_client=self._client)

    def _openai(self, key: str) -> Any:
        from openai import AsyncOpenAI
        from pydantic_ai.providers.openai import OpenAIProvider
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        client = AsyncOpenAI(
            api_key=key,
            base_url=self._base_url,
            max_retries=0,
            timeout=self._client.timeout,
            http_client=self._client,
        )
        if self.access.base_url is None:
            return OpenAIProvider(openai_client=client)
        return OpenAICompatibleProvider(self.access.name, openai_client=client)


def _keep_quiet() -> None:

    keep_quiet()


def _http_client(access: Access, base_url: str) -> "httpx2.AsyncClient":
    """A client that waits as long as the settings say. No proxy stands before servers on this machine."""
    import httpx2

    from weft.llm.providers.response_limits import ask_for_what_is_bounded, watch

    strangers = [_without_strangers] if access.name != access.kind else []
    seconds = access.settings.timeout_seconds
    concurrency = access.settings.concurrency
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
        limits=httpx2.Limits(max_connections=concurrency, max_keepalive_connections=min(concurrency, 20)),
        trust_env=not is_loopback(base_url),
        event_hooks={"request": [ask_for_what_is_bounded, *strangers], "response": [watch]},
    )


async def _without_strangers(request: "httpx2.Request") -> None:
    """Take out what the clients add from variables that are meant for the providers they are named after."""
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
    """Whether the address is this machine."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or host == "::1" or host.startswith("127.")


LOGGERS = ("pydantic_ai", "openai", "anthropic", "google_genai", "google", "httpx2", "httpcore2")
"""Python writes warnings of loggers without a handler to standard error. What they have to say is in our
errors; a program that sets up logging gets it as before."""


def keep_quiet() -> None:
    """Keep the libraries off standard error; done again it changes nothing."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            logger.addHandler(logging.NullHandler())
    # Where the usage of an answer makes no sense it is estimated, and marked so.
    warnings.filterwarnings("ignore", category=UsageExtractionFailedWarning)
