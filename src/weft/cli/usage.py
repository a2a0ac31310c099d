"""What requests to models took, as commands say it."""

from typing import Any

from weft.cli.saying import echo
from weft.cli.text import plural, printable
from weft.llm.spending import Ledger, Total


def usage_json(ledger: Ledger) -> dict[str, Any]:
    """The totals of a run and of each step, as JSON."""
    templates = ledger.templates()
    steps = [
        {"step": key, "template": templates.get(key), **_total_json(total)}
        for key, total in ledger.by_step().items()
    ]
    return {**_total_json(ledger.total()), "steps": steps}


def print_usage(ledger: Ledger, *, as_tree: bool) -> None:
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
