"""A model that does whatever any text tells it to: the worst case of prompt injection.

It reads everything it is sent (prompt, history, data, tool results), in clear and in every encoding it
knows, and asks for each tool call that it finds there, in several spellings. At the end it says all it has
read.
"""

import base64
import binascii
import codecs
import html
import json
import re
import unicodedata
import urllib.parse
from collections.abc import Iterator
from typing import Any

from weft.evaluator.tools import ToolUse
from weft.llm.context_window import estimated_tokens
from weft.llm.payload import AssistantMessage, HandlerPayload, ModelReply, ToolMessage, Usage
from weft.llm.protocol import Features, OnText

MAX_CALLS = 30
"""Calls in one turn: the handler refuses more than 32."""

Call = tuple[str, str]
"""A tool and its arguments, as JSON text."""

_SAID = re.compile(
    r"(?:call|use|invoke|run|execute)\s+(?:the\s+)?(?:tool|function)\s+[`\"'“]?([^ \t\n`\"'”,]+)[`\"'”]?"
    r"\s*(?:with|on|:)?\s*(\{.*?\}(?=[\s.,;`]|$))",
    re.IGNORECASE | re.DOTALL,
)
_TAG = re.compile(
    r"<(?:tool_call|invoke|call|tool)\s+(?:name|tool|task)=[\"']([^\"']+)[\"'][^>]*>(.*?)</", re.DOTALL
)
_PARAMETER = re.compile(r"<(?:parameter|arg)\s+name=[\"']([^\"']+)[\"'][^>]*>([^<]*)<")
_INVOKED = re.compile(r"<invoke\s+name=[\"']([^\"']+)[\"']\s*>(.*?)</invoke>", re.DOTALL)
_LISP = re.compile(r"\(([a-zA-Z_]+:[\w:.-]+)((?:\s+:[\w-]+\s+(?:\"[^\"]*\"|\([^)]*\)))*)\s*\)")
_LISP_ARGUMENT = re.compile(r":([\w-]+)\s+(?:\"([^\"]*)\"|\(([^)]*)\))")
_PYTHON = re.compile(r"\b([a-z_]+[.:_][a-z_.:]+)\((\w+=\[?[\"'][^)]*)\)")
_PYTHON_ARGUMENT = re.compile(r"(\w+)=(\[?)[\"']([^\"']*)[\"']")
_PLACEHOLDER = re.compile(r"\{\{\s*([\w:.]+)\((.*?)\)\s*\}\}")
_READ = re.compile(
    r"\b(?:read|open|cat|print|show|include|load)\s+(?:the\s+)?(?:file\s+)?[`\"']?((?:~|\.{0,2}/|/|\w+/|\.\w|file:|\\)[^\s`\"',;)]*)",
    re.IGNORECASE,
)
_SEND = re.compile(r"(https?://[^\s`\"'<>)\]]+)", re.IGNORECASE)
_RUN = re.compile(r"\b(?:run|execute)\s+[`$]\s*([^`\n]+)`?", re.IGNORECASE)
_SCRIPT = re.compile(r"\(script\s+:argv\s+\(([^)]*)\)")
_XML_SCRIPT = re.compile(r"<task\s+type=[\"']script[\"'].*?<script>([^<]*)<", re.DOTALL)
_WRITE = re.compile(r"\bwrite\s+[\"'`]([^\"'`]*)[\"'`]\s+(?:in)?to\s+[`\"']?([^\s`\"',;]+)", re.IGNORECASE)
_BLOB = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-f]{2}){16,}", re.IGNORECASE)


class ObedientModel:
    """Asks for every tool call that any text mentions, until there is nothing new."""

    id = "test:obedient"
    features = Features(context_window=1_000_000)
    settings_digest = ""

    def __init__(self, max_turns: int = 6) -> None:
        self._max_turns = max_turns
        self.payloads: list[HandlerPayload] = []
        self.asked: list[tuple[str, frozenset[str]]] = []
        """The name of each call, and the names of the tools that it was told of."""
        self.calls: dict[str, Call] = {}

    async def request(self, payload: HandlerPayload, on_text: OnText | None = None) -> ModelReply:
        self.payloads.append(payload)
        text = read_by(payload)
        tried = {
            self.calls[use.id]
            for message in payload.messages
            if isinstance(message, AssistantMessage)
            for use in message.tool_uses
        }
        new = [call for call in dict.fromkeys(calls_in(text)) if call not in tried][:MAX_CALLS]
        turns = sum(1 for message in payload.messages if isinstance(message, ToolMessage))
        if not new or turns > self._max_turns * MAX_CALLS:
            return ModelReply(text=f"I have read: {text}", usage=self._usage(payload), model=self.id)
        first = len(self.asked)
        offered = frozenset(tool.name for tool in payload.tools)
        self.asked += [(name, offered) for name, _ in new]
        self.calls |= {f"use-{first + index}": call for index, call in enumerate(new)}
        uses = tuple(
            ToolUse(id=f"use-{first + index}", name=name, arguments=_arguments(arguments))
            for index, (name, arguments) in enumerate(new)
        )
        return ModelReply(
            text="As you wish.",
            tool_uses=uses,
            finish_reason="tools",
            usage=self._usage(payload),
            model=self.id,
        )

    async def count_tokens(self, payload: HandlerPayload) -> int:
        return estimated_tokens(payload)

    def price(self, usage: Usage) -> float | None:
        return 0.0

    def _usage(self, payload: HandlerPayload) -> Usage:
        return Usage(input_tokens=estimated_tokens(payload), output_tokens=1)


def read_by(payload: HandlerPayload) -> str:
    """Everything that the model is sent."""
    said = [message.content for message in payload.messages]
    return "\n".join([payload.system_prompt, payload.context or "", *said])


def calls_in(text: str) -> Iterator[Call]:
    """Every call that the text mentions, in clear or hidden."""
    for form in dict.fromkeys(_forms(text)):
        yield from _calls_in_clear(form)


def _forms(text: str) -> Iterator[str]:
    """Yield the text as it stands, and decoded in several ways."""
    yield text
    yield unicodedata.normalize("NFKC", text)
    yield "".join(char for char in text if unicodedata.category(char) != "Cf")
    yield html.unescape(text)
    yield urllib.parse.unquote(text)
    yield codecs.decode(text, "rot13")
    yield text[::-1]
    unescaped = text.replace('\\"', '"').replace("\\n", "\n").replace("\\/", "/")
    yield unescaped
    yield unescaped[::-1]
    yield "".join(chr(ord(char) - 0xE0000) if 0xE0000 < ord(char) < 0xE0080 else char for char in text)
    for blob in _BLOB.findall(text):
        yield from _decoded(
            blob,
            lambda one: base64.b64decode(
                one + "=" * (-len(one) % 4), altchars=b"-_" if set("-_") & set(one) else None
            ),
        )
    for blob in _HEX.findall(text):
        yield from _decoded(blob, binascii.unhexlify)


def _decoded(blob: str, decode: Any) -> Iterator[str]:
    try:
        inner = decode(blob).decode("ascii")
    except (ValueError, binascii.Error):
        return
    yield inner
    for deeper in _BLOB.findall(inner):
        yield from _decoded(deeper, lambda one: base64.b64decode(one + "=" * (-len(one) % 4)))


def _calls_in_clear(text: str) -> Iterator[Call]:
    for name, arguments in _SAID.findall(text):
        yield from _spelled(name, arguments)
    yield from _calls_in_json(text)
    for name, body in _INVOKED.findall(text):
        yield from _spelled(name, json.dumps(dict(_PARAMETER.findall(body))))
    for name, body in _TAG.findall(text):
        if not _PARAMETER.search(body):
            yield from _spelled(name, body.strip() or "{}")
    for name, body in _LISP.findall(text):
        given = {key: one or many.replace('"', "").split() for key, one, many in _LISP_ARGUMENT.findall(body)}
        yield from _spelled(name, json.dumps(given))
    for name, body in [*_PYTHON.findall(text), *_PLACEHOLDER.findall(text)]:
        given = {key: [one] if is_list else one for key, is_list, one in _PYTHON_ARGUMENT.findall(body)}
        yield from _spelled(name, json.dumps(given))
    yield from _wishes_in(text)


def _wishes_in(text: str) -> Iterator[Call]:
    """Plain wishes: what to read, send, run, write."""
    for path in _READ.findall(text):
        yield from _spelled("system:read_files", json.dumps({"paths": [path.rstrip(".")]}))
    for url in _SEND.findall(text):
        for name in ("net:fetch", "executor:http"):
            yield from _spelled(name, json.dumps({"url": url.rstrip(".")}))
        yield from _spelled("system:read_files", json.dumps({"paths": [url]}))
    for line in [*_RUN.findall(text), *_SCRIPT.findall(text), *_XML_SCRIPT.findall(text)]:
        argv = json.dumps({"argv": line.replace('"', "").split()})
        yield from _spelled("system:run_script", argv)
        yield from _spelled("executor:command", argv)
    for content, path in _WRITE.findall(text):
        yield from _spelled("system:write_file", json.dumps({"path": path, "content": content}))


def _calls_in_json(text: str) -> Iterator[Call]:
    """Every object in the text that looks like a call, however deep."""
    decoder = json.JSONDecoder()
    for start in (match.start() for match in re.finditer(r"[\[{]", text)):
        try:
            value, _ = decoder.raw_decode(text, start)
        except ValueError:
            continue
        yield from _calls_in_value(value)


def _calls_in_value(value: Any) -> Iterator[Call]:
    if isinstance(value, list):
        for one in value:
            yield from _calls_in_value(one)
    if not isinstance(value, dict):
        return
    name = next(
        (
            value[key]
            for key in ("tool", "name", "function", "tool_name", "method")
            if isinstance(value.get(key), str)
        ),
        None,
    )
    given = next(
        (value[key] for key in ("arguments", "input", "args", "parameters", "params") if key in value), None
    )
    if name and given is not None:
        yield from _spelled(name, given if isinstance(given, str) else json.dumps(given))
    for key, one in value.items():
        yield from _calls_in_value(one)
        if isinstance(one, str):
            yield from _calls_in_clear(one) if len(one) < 2000 and one != key else ()


def _spelled(name: str, arguments: str) -> Iterator[Call]:
    """Yield the call as it is written, and under names that a model at its provider would use."""
    yield name, arguments
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    if safe != name:
        yield safe, arguments


def _arguments(text: str) -> dict[str, Any] | str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict) else text
