"""JSON text in and out. One decoder and one encoder for records, so that nothing is lost between them."""

import re
from typing import Any

import msgspec

from weft.collector import paused_collector
from weft.errors import RequestError
from weft.limits import MAX_JSON_BYTES, MAX_JSON_DEPTH
from weft.tasks.record import JsonObject, Task

_BYTE_OFFSET = re.compile(r"\(byte (\d+)\)")
_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")


class MalformedJson(RequestError):
    """The text is not JSON, or more of it than weft reads."""

    code = "malformed-json"

    def __init__(
        self, reason: str, *, source: str, line: int | None = None, column: int | None = None
    ) -> None:
        place = f"{source}:{line}:{column}" if line is not None else source
        super().__init__(f"{place}: {reason}")
        self.source = source
        self.line = line
        self.column = column


@paused_collector()
def decode(text: bytes, *, source: str = "input") -> Any:
    """The value a JSON text stands for; raises MalformedJson with line and column."""
    if len(text) > MAX_JSON_BYTES:
        raise MalformedJson(
            f"{len(text)} bytes of JSON are more than the {MAX_JSON_BYTES} allowed", source=source
        )
    text = text.removeprefix(b"\xef\xbb\xbf")
    if not text.strip():
        raise MalformedJson("the file is empty", source=source)
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise _malformed(str(error), text, source) from None
    except UnicodeDecodeError as error:
        raise MalformedJson(f"not UTF-8: {error.reason}", source=source) from None
    except RecursionError:
        raise MalformedJson(
            "nested too deeply; a flat list of tasks with parent_id has no such limit", source=source
        ) from None


def _malformed(reason: str, text: bytes, source: str) -> MalformedJson:
    """The error with its place, where the decoder tells it."""
    found = _BYTE_OFFSET.search(reason)
    if found is None and "truncated" not in reason:
        return MalformedJson(reason.partition(" - at ")[0], source=source)
    if found is None and _HALF_PAIR.search(text):
        # The decoder takes the missing second half for the end of the text.
        return MalformedJson("a string has half of a surrogate pair (\\ud800 to \\udfff)", source=source)
    before = text[: int(found[1])] if found else text
    last_line = before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")
    return MalformedJson(
        _BYTE_OFFSET.sub("", reason).strip(),
        source=source,
        line=before.count(b"\n") + 1,
        column=len(last_line) + 1,
    )


def task_object(task: Task) -> JsonObject:
    """The record as a JSON object; the auxiliary fields only once a store has filled them."""
    record: JsonObject = msgspec.to_builtins(task)
    record["dependencies"] = list(record["dependencies"])  # msgspec leaves it a tuple
    if task.task_tree_id is None:
        del record["task_tree_id"], record["has_children"]
    return record


def is_json(value: Any) -> bool:
    """Whether JSON text gives the value back unchanged: no NaN, no lone surrogate, nothing too deep."""
    try:
        text = msgspec.json.encode(value)
        return not _is_deep(value, text) and bool(msgspec.json.decode(text) == value)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        return False


def _is_deep(value: Any, text: bytes) -> bool:
    if text.count(b"[") + text.count(b"{") <= MAX_JSON_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        parts = (part.values() if isinstance(part, dict) else part for part in level)
        level = [child for part in parts for child in part if isinstance(child, dict | list)]
    return bool(level)
