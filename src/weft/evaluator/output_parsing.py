"""Parses the output of a task as JSON and validates it."""

import json
import re
from typing import Any

import msgspec

from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.language.schemas import Shape
from weft.language.source import Span
from weft.limits import MAX_JSON_DEPTH

_FENCE = re.compile(r"\A\s*```[\w+-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*\Z", re.DOTALL)
_BYTE = re.compile(r" \(byte (\d+)\)\Z")
_HALF = re.compile(r"\\u[dD][89abAB][\da-fA-F]{2}(?!\\u[dD][c-fC-F])")
"""An escaped first half of a surrogate pair without the second half."""


class BadOutput(Exception):
    """A content does not match its output format. Never leaves the evaluator."""

    def __init__(self, kind: str, message: str, location: str) -> None:
        super().__init__(f"{message} (at {location})" if location else message)
        self.kind = kind
        self.message = message
        self.location = location

    def as_json(self) -> dict[str, str]:
        """Return the error as `notes.parseError`."""
        return {"type": self.kind, "message": self.message, "location": self.location}


def parse_output(content: str, shape: Shape | None) -> Any:
    """Return the JSON value of a content. Raise BadOutput.

    A fenced block around the whole content is removed. Text before or after the JSON is an error. Of a
    duplicate name in an object the last value counts.
    """
    fenced = _FENCE.match(content)
    value = _read(content, fenced.span(1)) if fenced else _read(content, (0, len(content)))
    if _depth(value) > MAX_JSON_DEPTH:
        raise BadOutput("json_syntax", f"the JSON is nested deeper than {MAX_JSON_DEPTH} levels", "")
    found = shape.violations(value) if shape is not None else []
    if found:
        message = "; ".join(str(one) for one in found)
        raise BadOutput("schema_mismatch", message, found[0].location)
    return value


def format_failure(problem: BadOutput, content: str, span: Span) -> TaskFailed:
    """Return the error for a content that does not match its format; the error keeps the content."""
    error = TaskFailure(
        "output_format_failure",
        f"the output does not fit its format: {problem}",
        content=content,
        notes={"parseError": problem.as_json()},
    )
    return TaskFailed(error, span=span)


def _read(content: str, part: tuple[int, int]) -> Any:
    """Parse a part of the content; locations refer to the whole content."""
    text = content[slice(*part)]
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise BadOutput("json_syntax", "the JSON is nested too deeply", "") from None
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        message, position = _syntax_problem(text, error)
        location = "" if position is None else _location(content[: part[0] + position])
        raise BadOutput("json_syntax", message, location) from None


def _syntax_problem(text: str, error: Exception) -> tuple[str, int | None]:
    """Return what is wrong with a text that is not JSON, and at which character; None if unknown."""
    if not text.strip():
        return "the output is empty; JSON was expected", 0
    if isinstance(error, UnicodeEncodeError):
        return "half of a surrogate pair is not a character", error.start
    message = str(error)
    named = _BYTE.search(message)
    if named is not None:
        byte = int(named[1]) - (
            "trailing characters" in message
        )  # there the parser is already past the first one
        return _BYTE.sub("", message), len(text.encode()[:byte].decode(errors="ignore"))
    try:  # msgspec reports only a truncated text, also for `no`, which begins like `null`
        json.loads(text)
        if half := _HALF.search(text):  # `json` accepts it
            return "half of a surrogate pair is not a character", half.start()
    except json.JSONDecodeError as found:
        return f"JSON is malformed: {found.msg[0].lower()}{found.msg[1:]}", found.pos
    except (RecursionError, ValueError):
        pass
    return message, None


def _location(before: str) -> str:
    return f"line {before.count(chr(10)) + 1} column {len(before) - before.rfind(chr(10))}"


def _depth(value: Any) -> int:
    """Return how deep lists and dicts nest; iterative, so that any depth works."""
    depth = 0
    level = [value]
    while level := [part for one in level for part in _parts(one)]:
        depth += 1
    return depth


def _parts(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
