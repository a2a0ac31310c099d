"""Values of programs, as commands print them."""

import json
import sys
from typing import Any

from weft.cli.output import print_bytes, print_json_text
from weft.evaluator.functions import BuiltIn, Closure
from weft.evaluator.results import TaskResult
from weft.evaluator.values import fields_of, to_text
from weft.language.library import TaskDefinition, TaskLibrary


def print_value(value: Any) -> None:
    """Print a value: a string as it is, a task result as its content, a function by its name, else JSON."""
    text = value_text(value)
    # One line break at the end, as programs end what they print: scripts do so by themselves.
    print_bytes(text.removesuffix("\n").encode("utf-8", "backslashreplace"))
    sys.stdout.flush()  # a session goes on, and its next prompt must not come before


def print_value_json(value: Any, **further: Any) -> None:
    """Print the one JSON document that holds a value, and what further is to be said."""
    # Not msgspec: it has no integers beyond 64 bits.
    document = {"value": _plain(value), **further}
    try:
        print_json_text(json.dumps(document, indent=2, ensure_ascii=False).encode())
    except UnicodeEncodeError:  # half of a surrogate pair: escaped
        print_json_text(json.dumps(document, indent=2).encode())


def value_text(value: Any) -> str:
    """The value as text."""
    plain = _plain(value)
    if isinstance(value, TaskResult):
        return value.content
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """The value as JSON; functions, which have none, as `<function name>`."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, TaskResult):
        return _plain(fields_of(value))
    if isinstance(value, Closure | BuiltIn | TaskDefinition | TaskLibrary):
        return to_text(value).removeprefix("#")
    return str(value) if isinstance(value, str) else value
