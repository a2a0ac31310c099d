"""What a task said, as a value: JSON read strictly, and held to the shape it was asked for."""

import re
from typing import Any

import msgspec

from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.language.output_schemas import Shape
from weft.language.spans import Span
from weft.limits import MAX_JSON_DEPTH

_FENCE = re.compile(r"\A\s*```[\w+-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*\Z", re.DOTALL)
_BYTE = re.compile(r" \(byte (\d+)\)\Z")


class BadOutput(Exception):
    """A content is not what its output format asks for. Never leaves the evaluator."""

    def __init__(self, kind: str, message: str, location: str) -> None:
        super().__init__(f"{message} (at {location})" if location else message)
        self.kind = kind
        self.message = message
        self.location = location

    def as_json(self) -> dict[str, str]:
        """`notes.parseError`."""
        return {"type": self.kind, "message": self.message, "location": self.location}


def parse_output(content: str, shape: Shape | None) -> Any:
    """The JSON value of a content; raises BadOutput.

    One fenced block around the whole is taken off. Nothing else is guessed: prose before or after the JSON is
    an error. Of a name that an object has twice the last one counts.
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
    """The error for a content that does not fit; the content is kept."""
    error = TaskFailure(
        "output_format_failure",
        f"the output does not fit its format: {problem}",
        content=content,
        notes={"parseError": problem.as_json()},
    )
    return TaskFailed(error, span=span)


def _read(content: str, part: tuple[int, int]) -> Any:
    """The value of a part of the content; places are those in the whole."""
    text = content[slice(*part)]
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise BadOutput("json_syntax", "the JSON is nested too deeply", "") from None
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        if not text.strip():
            raise BadOutput("json_syntax", "the output is empty; JSON was expected", "") from None
        message = str(error)
        location = _location(content[: part[0]], text, message)
        raise BadOutput("json_syntax", _BYTE.sub("", message), location) from None


def _location(before: str, text: str, message: str) -> str:
    """Line and column of the byte that a message names."""
    named = _BYTE.search(message)
    if named is None:
        return ""
    byte = int(named[1]) - ("trailing characters" in message)  # there the reader has passed the first one
    before += text.encode(errors="surrogatepass")[:byte].decode(errors="ignore")
    return f"line {before.count(chr(10)) + 1} column {len(before) - before.rfind(chr(10))}"


def _depth(value: Any) -> int:
    """How deep lists and dicts nest; walked by levels, so that no depth is too deep."""
    depth = 0
    level = [value]
    while level := [part for one in level for part in _parts(one)]:
        depth += 1
    return depth


def _parts(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
