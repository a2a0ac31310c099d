"""Format values, tokens and cost for the terminal."""

import json
import sys
from typing import Any

from weft.app.evaluation import UsageLedger
from weft.cli.display.output import plural, print_bytes, print_json_text, printable
from weft.cli.invoke import echo
from weft.evaluator.functions import BuiltIn, Closure
from weft.evaluator.results import TaskResult
from weft.evaluator.values import fields_of, to_text
from weft.language.library import TaskDefinition, TaskLibrary
from weft.tasks.steps import Usage


def print_value(value: Any) -> None:
    """Print a string as it is, a task result as its content, a function as its name, other values as JSON."""
    text = value_text(value)
    # Exactly one line break at the end: the output of a script already has one.
    print_bytes(text.removesuffix("\n").encode())
    sys.stdout.flush()  # in a repl, the next prompt must come after it


def print_value_json(value: Any, **further: Any) -> None:
    """Print a JSON document with the value and further fields."""
    # Not msgspec: it cannot encode integers beyond 64 bits.
    document = {"value": _to_json(value), **further}
    print_json_text(json.dumps(document, indent=2, ensure_ascii=False).encode())


def value_text(value: Any) -> str:
    """Format a value as `print_value` prints it."""
    plain = _to_json(value)
    if isinstance(value, TaskResult):
        return value.content
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _to_json(value: Any) -> Any:
    """Convert a value to JSON; functions become the string `<function name>`."""
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _to_json(item) for key, item in value.items()}
    if isinstance(value, TaskResult):
        return _to_json(fields_of(value))
    if isinstance(value, Closure | BuiltIn | TaskDefinition | TaskLibrary):
        return to_text(value).removeprefix("#")
    return str(value) if isinstance(value, str) else value


def usage_json(ledger: UsageLedger) -> dict[str, Any]:
    """Return the totals of an evaluation and of each step as JSON."""
    templates = ledger.templates()
    steps = [
        {"step": key, "template": templates.get(key), **_total_json(total)}
        for key, total in ledger.by_step().items()
    ]
    return {**_total_json(ledger.total()), "steps": steps}


def print_usage(ledger: UsageLedger, *, as_tree: bool) -> None:
    """Print model calls, tokens and cost to standard error; with `as_tree` also for each step."""
    if as_tree:
        templates = ledger.templates()
        for key, total in ledger.by_step().items():
            name = f" {templates[key]}" if key in templates else ""
            echo(printable(f"{'  ' * key.count('/')}{key}{name}: {_total_line(total)}"), err=True)
    echo(_total_line(ledger.total()), err=True)


def _total_line(total: Usage) -> str:
    line = f"{plural(total.turns, 'model call')}, {plural(total.tokens, 'token')}, ${_dollars(total.cost)}"
    if total.unpriced:
        return f"{line} and {plural(total.unpriced, 'call')} without a known price"
    return line


def _dollars(cost: float) -> str:
    """Format dollars with two decimals; amounts below one dollar with up to six."""
    return f"{cost:.2f}" if cost >= 1 or cost == 0 else f"{cost:.6f}".rstrip("0")


def _total_json(total: Usage) -> dict[str, Any]:
    return {
        "calls": total.turns,
        "input_tokens": total.input_tokens,
        "output_tokens": total.output_tokens,
        "tokens": total.tokens,
        "cost": total.cost,
        "unpriced_calls": total.unpriced,
    }
