"""Parses the output of a task as JSON and validates it."""

import json
import re
from typing import Any

import msgspec

from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.evaluator.values import scan_json
from weft.language.schemas import CompiledSchema
from weft.language.source import Span
from weft.limits import MAX_JSON_DEPTH

_FENCE = re.compile(r"\A\s*```[\w+-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*\Z", re.DOTALL)
_BYTE_OFFSET = re.compile(r" \(byte (\d+)\)\Z")
_LONE_SURROGATE = re.compile(r"\\u[dD][89abAB][\da-fA-F]{2}(?!\\u[dD][c-fC-F])")
"""An escaped high surrogate that is not followed by a low one."""


class BadOutput(Exception):
    """The output does not match its format. Never leaves the evaluator."""

    def __init__(self, kind: str, message: str, location: str) -> None:
        super().__init__(f"{message} (at {location})" if location else message)
        self.kind = kind
        self.message = message
        self.location = location

    def as_json(self) -> dict[str, str]:
        """Return the value of `notes.parseError`."""
        return {"type": self.kind, "message": self.message, "location": self.location}


def parse_output(content: str, shape: CompiledSchema | None) -> Any:
    """Parse the content of a result as JSON. Raise BadOutput if it is malformed or violates the schema.

    A code fence around the whole content is removed. Text before or after the JSON is an error. If an object
    repeats a name, the last value is used.
    """
    fenced = _FENCE.match(content)
    value = _read(content, fenced.span(1)) if fenced else _read(content, (0, len(content)))
    if not scan_json(value, len(content))[0]:
        raise BadOutput("json_syntax", f"the JSON is nested deeper than {MAX_JSON_DEPTH} levels", "")
    violations = shape.violations(value) if shape is not None else []
    if violations:
        message = "; ".join(map(str, violations))
        raise BadOutput("schema_mismatch", message, violations[0].location)
    return value


def format_failure(problem: BadOutput, content: str, span: Span) -> TaskFailed:
    """Return the error of a task whose output does not match its format; it contains the output."""
    error = TaskFailure(
        "output_format_failure",
        f"the output does not match its format: {problem}",
        content=content,
        notes={"parseError": problem.as_json()},
    )
    return TaskFailed(error, span=span)


def _read(content: str, part: tuple[int, int]) -> Any:
    """Parse a part of the content; locations in errors count from the start of the content."""
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
    """Return the message of a JSON syntax error, and its character offset or None if that is unknown."""
    if not text.strip():
        return "the output is empty; JSON was expected", 0
    if isinstance(error, UnicodeEncodeError):
        return "a lone surrogate is not a valid character", error.start
    message = str(error)
    offset = _BYTE_OFFSET.search(message)
    if offset is not None:
        byte = int(offset[1])
        if "trailing characters" in message:
            byte -= 1  # msgspec reports the byte after the first trailing one
        return _BYTE_OFFSET.sub("", message), len(text.encode()[:byte].decode(errors="ignore"))
    try:  # msgspec reports no offset for truncated input, such as `no`, which begins like `null`
        json.loads(text)
        if surrogate := _LONE_SURROGATE.search(text):  # `json` accepts it
            return "a lone surrogate is not a valid character", surrogate.start()
    except json.JSONDecodeError as found:
        return f"JSON is malformed: {found.msg[0].lower()}{found.msg[1:]}", found.pos
    except (RecursionError, ValueError):
        pass
    return message, None


def _location(before: str) -> str:
    return f"line {before.count(chr(10)) + 1} column {len(before) - before.rfind(chr(10))}"
