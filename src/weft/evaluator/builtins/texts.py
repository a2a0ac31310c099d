"""Built-ins for strings, task results, errors and log messages."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from weft.evaluator.builtins.table import built_in, check_size, declare_all
from weft.evaluator.compiler import Compiler
from weft.evaluator.errors import TaskFailed, program_error
from weft.evaluator.results import TaskError, TaskFailure, TaskResult
from weft.evaluator.values import to_json, to_text

_NUMBER = re.compile(r"\s*[+-]?(\d+|\d+\.\d*|\.\d+|(\d+\.?\d*|\.\d+)[eE][+-]?\d+)\s*", re.ASCII)


@built_in("string-append", is_linear=True)
def string_append(*values: str) -> str:
    check_size("string-append", sum(map(len, values)))
    return "".join(values)


@built_in("substring", is_linear=True)
def substring(value: str, start: int, end: int | None = None) -> str:
    end = len(value) if end is None else end
    if not 0 <= start <= end <= len(value):
        raise program_error("bad-value", f"substring {start} to {end} of a string of {len(value)} characters")
    return value[start:end]


@built_in("string-split", is_linear=True)
def string_split(value: str, separator: str | None = None) -> list[str]:
    if separator == "":
        raise program_error("bad-value", "string-split takes a separator that is not empty")
    return value.split(separator)


@built_in("string-join", is_linear=True)
def string_join(items: list[Any], separator: str = "") -> str:
    texts = [to_text(item) for item in items]
    check_size("string-join", sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


@built_in("string-replace", is_linear=True)
def string_replace(value: str, old: str, new: str) -> str:
    if not old:
        raise program_error("bad-value", "string-replace takes something to replace; the second is empty")
    check_size("string-replace", len(value) + value.count(old) * (len(new) - len(old)))
    return value.replace(old, new)


@built_in("string->number", is_linear=True)
def string_to_number(value: str) -> int | float | None:
    if len(value) > 4_000 or not _NUMBER.fullmatch(value):
        return None
    text = value.strip()
    if text.lstrip("+-").isdigit():
        return int(text)
    number = float(text)
    return number if number - number == 0 else None


@built_in("format", is_linear=True)
def format_text(template: str, *values: Any) -> str:
    pieces = re.split(r"(\{\{|\}\}|\{\})", template)
    remaining = iter(values)
    texts: list[str] = []
    for piece in pieces:
        if piece == "{}":
            texts.append(_next_text(remaining, len(values)))
        else:
            texts.append({"{{": "{", "}}": "}"}.get(piece, piece))
    if next(remaining, remaining) is not remaining:
        raise program_error(
            "wrong-arity", f"format has fewer {{}} than the {len(values)} values it was given"
        )
    check_size("format", sum(map(len, texts)))
    return "".join(texts)


def _next_text(values: Iterator[Any], count: int) -> str:
    for value in values:
        return to_text(value)
    raise program_error("wrong-arity", f"format has more {{}} than the {count} values it was given")


declare_all(
    {
        "string-length": len,
        "number->string": to_text,
        "starts-with?": str.startswith,
        "ends-with?": str.endswith,
    }
)
declare_all(
    {
        "string": to_text,
        "string-upcase": str.upper,
        "string-downcase": str.lower,
        "string-trim": str.strip,
        "string-contains?": lambda value, part: part in value,
    },
    is_linear=True,
)


# Task results


def _is_failed(value: Any) -> bool:
    return isinstance(value, TaskResult) and value.status == "FAILED"


@built_in("log-message", needs_compiler=True)
def log_message(compiler: Compiler, *values: Any) -> None:
    compiler.machine.effects.log(" ".join(map(to_text, values)))


@built_in("error")
def error(message: Any, details: Any = None) -> Any:
    notes = None if details is None else {"details": to_json(details)}
    raise TaskFailed(
        TaskFailure(reason="execution_halted", message=to_text(message), notes=notes), code="raised"
    )


@built_in("raise")
def raise_again(value: Any) -> Any:
    if _is_failed(value):
        raise TaskFailed(_error_of(value), code="raised")
    return error(value)


def _error_of(result: TaskResult) -> TaskError:
    try:
        return msgspec.convert(result.notes.get("error"), TaskError)  # type: ignore[no-any-return]
    except msgspec.ValidationError:
        return TaskFailure(reason="subtask_failure", message=result.content, content=result.content)


declare_all(
    {
        "content": lambda result: result.content,
        "status": lambda result: result.status,
        "parsed": lambda result: None if result.parsed_content is UNSET else result.parsed_content,
        "notes": lambda result: result.notes,
        "failed?": _is_failed,
        "identity": lambda value: value,
    }
)
