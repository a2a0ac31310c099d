"""Format values, tokens and cost for the terminal."""

import json
import sys
from typing import Any

from weft.cli.display.output import plural, print_bytes, print_json_text, printable
from weft.cli.invoke import echo
from weft.evaluator.functions import BuiltIn, Closure
from weft.evaluator.results import TaskResult
from weft.evaluator.values import fields_of, to_text
from weft.language.library import TaskDefinition, TaskLibrary
from weft.llm.usage import Total, UsageLedger


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


def usage_json(ledger: UsageLedger) -> dict[str, Any]:
    """The totals of a run and of each step, as JSON."""
    templates = ledger.templates()
    steps = [
        {"step": key, "template": templates.get(key), **_total_json(total)}
        for key, total in ledger.by_step().items()
    ]
    return {**_total_json(ledger.total()), "steps": steps}


def print_usage(ledger: UsageLedger, *, as_tree: bool) -> None:
    """Print what was used on standard error, in one line; as a tree also what each step has used."""
    if as_tree:
        templates = ledger.templates()
        for key, total in ledger.by_step().items():
            name = f" {templates[key]}" if key in templates else ""
            echo(printable(f"{'  ' * key.count('/')}{key}{name}: {_words(total)}"), err=True)
    echo(_words(ledger.total()), err=True)


def _words(total: Total) -> str:
    words = f"{plural(total.calls, 'model call')}, {plural(total.tokens, 'token')}, ${_dollars(total.cost)}"
    if total.unpriced:
        return f"{words} and {plural(total.unpriced, 'call')} without a known price"
    return words


def _dollars(cost: float) -> str:
    """Two digits, and more where these would say nothing."""
    return f"{cost:.2f}" if cost >= 1 or cost == 0 else f"{cost:.6f}".rstrip("0")


def _total_json(total: Total) -> dict[str, Any]:
    return {
        "calls": total.calls,
        "input_tokens": total.input_tokens,
        "output_tokens": total.output_tokens,
        "tokens": total.tokens,
        "cost": total.cost,
        "unpriced_calls": total.unpriced,
    }
