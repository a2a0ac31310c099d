"""Problems of tasks and flows, and decoding and encoding of their JSON."""

import difflib
import itertools
import re
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

import msgspec
from msgspec import Struct

from weft.errors import RequestError
from weft.gc_tuning import pause_collector
from weft.limits import (
    MAX_JSON_BYTES,
    MAX_JSON_DEPTH,
    MAX_SHOWN_CHARACTERS,
    MAX_SUGGESTION_WORDS,
    decode_text,
)
from weft.secrets.registry import redact
from weft.tasks.record import JsonObject, Task

_BYTE_OFFSET = re.compile(r"\(byte (\d+)\)")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


class MalformedJson(RequestError):
    """The text is not valid JSON, or exceeds a limit."""

    code = "malformed-json"

    def __init__(
        self, reason: str, *, source: str, line: int | None = None, column: int | None = None
    ) -> None:
        location = f"{source}:{line}:{column}" if line is not None else source
        super().__init__(f"{location}: {reason}")
        self.source = source
        self.line = line
        self.column = column


@pause_collector()
def decode(text: bytes, *, source: str = "input") -> Any:
    """Return the value of a JSON text. Raise MalformedJson, with line and column, if it is invalid."""
    if len(text) > MAX_JSON_BYTES:
        raise MalformedJson(f"{len(text)} bytes of JSON exceed the limit of {MAX_JSON_BYTES}", source=source)
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
    """Return the error, with its line and column if the decoder reports them."""
    found = _BYTE_OFFSET.search(reason)
    if found is None and "truncated" not in reason:
        return MalformedJson(reason.partition(" - at ")[0], source=source)
    if found is None and _SURROGATE_ESCAPE.search(text):
        # The decoder reports a lone surrogate as the end of the text.
        return MalformedJson("a string has a lone surrogate (\\ud800 to \\udfff)", source=source)
    before = text[: int(found[1])] if found else text
    last_line = decode_text(before[before.rfind(b"\n") + 1 :])
    return MalformedJson(
        _BYTE_OFFSET.sub("", reason).strip(),
        source=source,
        line=before.count(b"\n") + 1,
        column=len(last_line) + 1,
    )


def task_object(task: Task) -> JsonObject:
    """Return the record as a JSON object; auxiliary fields are included only if they are computed."""
    record: JsonObject = msgspec.to_builtins(task)
    record["dependencies"] = list(record["dependencies"])  # msgspec leaves it a tuple
    if task.task_tree_id is None:
        del record["task_tree_id"], record["has_children"]
    return record


def is_json(value: Any) -> bool:
    """Return whether the value survives a JSON round trip: no NaN, no lone surrogate, not too deep."""
    try:
        text = msgspec.json.encode(value)
        return not _is_deep(value, text) and bool(msgspec.json.decode(text) == value)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        return False


def plain_json(value: Any) -> Any:
    """Return the value as a store returns it: tuples as lists, structs as objects. Raise ValueError."""
    try:
        text = msgspec.json.encode(value)
        # The encoder writes null for NaN and infinity.
        if b"null" in text and (number := _non_finite(msgspec.to_builtins(value, str_keys=True))) is not None:
            raise ValueError(f"JSON has no number {number}")
        return msgspec.json.decode(text)
    except (TypeError, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _non_finite(value: Any) -> float | None:
    """Return a NaN or infinity in a value of lists and dicts, or None."""
    if isinstance(value, float):
        return None if isfinite(value) else value
    parts = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list | tuple | set | frozenset):
        return None
    return next((found for part in parts if (found := _non_finite(part)) is not None), None)


def _is_deep(value: Any, text: bytes) -> bool:
    if text.count(b"[") + text.count(b"{") <= MAX_JSON_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        parts = (part.values() if isinstance(part, dict) else part for part in level)
        level = [child for part in parts for child in part if isinstance(child, dict | list)]
    return bool(level)


class Problem(Struct, frozen=True):
    """One broken rule: field, reason, expected and actual value, and path."""

    field: str
    reason: str
    expected: Any
    actual: Any
    path: str

    def __str__(self) -> str:
        return f"{self.path or self.field}: {self.reason}"


def problem_at(
    path: str, where: str, reason: str, expected: object, actual: object, *, field: str | None = None
) -> Problem:
    """Return a problem of the task at `path`; `where` is a field of it, or an entry of its `field`."""
    field = field or where.partition("[")[0]
    return Problem(field, reason, expected, shown(actual), joined(path, where))


class SeveralProblems(RequestError):
    """One or more rules are broken."""

    code = "several-problems"

    def __init__(self, found: Sequence[Problem]) -> None:
        self.found = tuple(found)
        more = f" (and {len(self.found) - 1} more)" if len(self.found) > 1 else ""
        super().__init__(f"{self.headline(self.found[0])}{more}")

    def headline(self, problem: Problem) -> str:
        """Return the text of the first problem for the message."""
        return str(problem)

    def problems(self) -> list[dict[str, Any]]:
        return [msgspec.to_builtins(problem) for problem in self.found]


class InvalidTasks(SeveralProblems):
    """One or more tasks break the rules of the task record."""

    code = "invalid-tasks"


def shown(value: Any) -> Any:
    """Return a short value as it is, otherwise the start of its text; always JSON, with secrets redacted."""
    if isinstance(value, bool | float | None):
        return value
    text = value if isinstance(value, str) else _text(value)
    clean = redact(text)  # before it is truncated: a part of a secret would not be recognised
    if clean is not text and clean != text:
        value = text = clean
    if len(text) > MAX_SHOWN_CHARACTERS:
        return printable(f"{text[:MAX_SHOWN_CHARACTERS]}...")
    return value if is_json(value) else printable(text)


def printable(text: str) -> str:
    """Return the text with lone surrogates escaped, so that it can be encoded."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _text(value: object) -> str:
    try:
        return repr(value)
    except (RecursionError, ValueError):  # nested too deeply, an integer of thousands of digits
        return f"{type(value).__name__} too large to show"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint with the known word most similar to `word`, or an empty string."""
    words = list(itertools.islice(known, MAX_SUGGESTION_WORDS))
    close = difflib.get_close_matches(word[:MAX_SHOWN_CHARACTERS], words, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def joined(path: str, part: str | int) -> str:
    """Return the path of a part inside `path`: `a` and `b` give `a.b`, `a` and 0 give `a[0]`."""
    if isinstance(part, int):
        return f"{path}[{part}]"
    return f"{path}.{part}" if path else part
