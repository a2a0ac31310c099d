"""`http`: sends an HTTP request and returns the response."""

import asyncio
import base64
import codecs
import ssl
from typing import TYPE_CHECKING, Any

import msgspec

from weft.aio import run_blocking
from weft.config.sections import HttpSettings
from weft.executors.http_inputs import HttpInputs, read_http_inputs
from weft.executors.protocol import ExecutionFailed, Work, result_schema, schema_of
from weft.tasks.record import ExecutorType, JsonObject

if TYPE_CHECKING:
    from weft.executors.http_client import HttpResponse, Resolve

_TRANSIENT = frozenset({408, 425, 429})
"""Client errors (4xx) that may be retried: request timeout, too early, too many requests."""

_CHARSETS = frozenset(
    {"ascii", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "iso8859-1", "iso8859-15", "cp1252"}
    | {"shift_jis", "euc_jp", "gb18030", "gbk", "gb2312", "big5", "euc_kr", "koi8-r", "cp1251"}
)
"""Accepted encodings of a response. Other codecs of Python are excluded, as some are slow by design
(idna)."""


class Http:
    """Sends requests to URLs; only to public addresses unless the settings allow others."""

    id = "http"
    type = ExecutorType.EXTERNAL
    summary = "Sends an HTTP request; returns status, headers and body of the response."
    input_schema = schema_of(HttpInputs, **{"not": {"required": ["json", "body"]}})
    output_schema = result_schema(
        status="integer",
        url="string",
        headers="object",
        json={},
        text="string",
        base64="string",
        truncated="boolean",
        redirects="integer",
    )
    uses_dependencies = False

    def __init__(
        self,
        settings: HttpSettings,
        *,
        resolve: "Resolve | None" = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.settings = settings
        self._resolve = resolve
        self._tls = tls

    async def execute(self, work: Work) -> JsonObject:
        inputs = read_http_inputs(work.inputs)
        try:
            async with asyncio.timeout(inputs.timeout_seconds):
                response = await self._call(inputs)
        except TimeoutError:
            limit = f"{inputs.timeout_seconds:g} s"
            url = inputs.url.partition("?")[0]
            raise ExecutionFailed(f"{inputs.method} {url}: no complete response within {limit}") from None
        result = _result(response)
        if not inputs.is_expected(response.status):
            raise ExecutionFailed(
                f"{inputs.method} {response.url.partition('?')[0]} returned "
                f"{response.status} {response.reason}",
                is_permanent=response.status < 500 and response.status not in _TRANSIENT,
                details=result,
            )
        return result

    async def _call(self, inputs: HttpInputs) -> "HttpResponse":
        if self._tls is None:
            # In a thread, because importing the client and reading certificates takes a tenth of a second.
            self._tls = await run_blocking(_load_tls, name="weft-http")
        # Imported here, because the import is slow: `weft --help` and flows without http do not need it.
        from weft.executors.http_client import call, resolve_by_system

        return await call(inputs, self.settings, resolve=self._resolve or resolve_by_system, tls=self._tls)


def _load_tls() -> ssl.SSLContext:
    from weft.executors.http_client import default_tls

    return default_tls()


def _result(response: "HttpResponse") -> JsonObject:
    return {
        "status": response.status,
        "url": response.url,
        "headers": response.headers,
        **_content(response),
        "truncated": response.is_truncated,
        "redirects": response.redirects,
    }


def _content(response: "HttpResponse") -> JsonObject:
    """Return the body as `json` if declared and valid, as `text` if it can be decoded, else as `base64`."""
    kind, _, parameters = response.headers.get("content-type", "").lower().partition(";")
    kind = kind.strip()
    if not response.is_truncated and (kind == "application/json" or kind.endswith("+json")):
        try:
            return {"json": msgspec.json.decode(response.body)}
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            pass  # declared as JSON, but invalid: return it as text
    errors = "replace" if kind.startswith("text/") or kind.endswith("json") else "strict"
    try:
        return {"text": _decoder(parameters)(errors).decode(response.body, not response.is_truncated)}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(response.body).decode("ascii")}


def _decoder(parameters: str) -> Any:
    """Return the decoder for the declared charset; for UTF-8 if no charset, or one not accepted, is declared.

    The decoder is incremental, because a truncated body may end inside a character.
    """
    _, _, name = parameters.partition("charset=")
    try:
        codec = codecs.lookup(name.partition(";")[0].strip(" \"'"))
    except LookupError:
        codec = codecs.lookup("utf-8")
    if codec.name not in _CHARSETS:
        codec = codecs.lookup("utf-8")
    return codec.incrementaldecoder
