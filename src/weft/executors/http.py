"""`http`: calls a URL and takes the answer."""

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
    from weft.executors.http_client import Answer, Resolve

_PASSING = frozenset({408, 425, 429})
"""Refusals (4xx) that say to try again: timed out, too early, too many."""

_CHARSETS = frozenset(
    {"ascii", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "iso8859-1", "iso8859-15", "cp1252"}
    | {"shift_jis", "euc_jp", "gb18030", "gbk", "gb2312", "big5", "euc_kr", "koi8-r", "cp1251"}
)
"""What an answer may be written in. A list: Python has codecs that are slow by design (idna)."""


class Http:
    """Calls URLs; only public addresses unless the settings say more."""

    id = "http"
    type = ExecutorType.EXTERNAL
    summary = "Calls a URL; gives the status, the headers and the body of the answer."
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
                answer = await self._call(inputs)
        except TimeoutError:
            limit = f"{inputs.timeout_seconds:g} s"
            place = inputs.url.partition("?")[0]
            raise ExecutionFailed(f"{inputs.method} {place}: no complete answer within {limit}") from None
        result = _result(answer)
        if not inputs.is_expected(answer.status):
            raise ExecutionFailed(
                f"{inputs.method} {answer.url.partition('?')[0]} answered {answer.status} {answer.reason}",
                is_permanent=answer.status < 500 and answer.status not in _PASSING,
                details=result,
            )
        return result

    async def _call(self, inputs: HttpInputs) -> "Answer":
        if self._tls is None:
            # In a thread: importing the client and reading the certificates takes a tenth of a second.
            self._tls = await run_blocking(_load_tls, name="weft-http")
        # Imported here: see the module; `weft --help` and flows without http must not pay for it.
        from weft.executors.http_client import call, resolve_by_system

        return await call(inputs, self.settings, resolve=self._resolve or resolve_by_system, tls=self._tls)


def _load_tls() -> ssl.SSLContext:
    from weft.executors.http_client import default_tls

    return default_tls()


def _result(answer: "Answer") -> JsonObject:
    return {
        "status": answer.status,
        "url": answer.url,
        "headers": answer.headers,
        **_content(answer),
        "truncated": answer.is_cut,
        "redirects": answer.redirects,
    }


def _content(answer: "Answer") -> JsonObject:
    """The body as `json` when it says it is and is, as `text` when it is text, else as `base64`."""
    kind, _, parameters = answer.headers.get("content-type", "").lower().partition(";")
    kind = kind.strip()
    if not answer.is_cut and (kind == "application/json" or kind.endswith("+json")):
        try:
            return {"json": msgspec.json.decode(answer.body)}
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            pass  # Then it is text that claims to be JSON.
    errors = "replace" if kind.startswith("text/") or kind.endswith("json") else "strict"
    try:
        return {"text": _decoder(parameters)(errors).decode(answer.body, not answer.is_cut)}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(answer.body).decode("ascii")}


def _decoder(parameters: str) -> Any:
    """The decoder for the charset the header names; UTF-8 when there is none that we know.

    An incremental one: a body that was cut may end within a character.
    """
    _, _, name = parameters.partition("charset=")
    try:
        codec = codecs.lookup(name.partition(";")[0].strip(" \"'"))
    except LookupError:
        codec = codecs.lookup("utf-8")
    if codec.name not in _CHARSETS:
        codec = codecs.lookup("utf-8")
    return codec.incrementaldecoder
