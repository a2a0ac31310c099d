"""Names that are bound on the command line: `--set` and `--secret`."""

import json
from math import isfinite
from typing import Any

import click

from weft.cli.options import read_input


def read_bindings(
    settings: tuple[str, ...], secrets: tuple[str, ...], *, option: str | None = "--set"
) -> dict[str, Any]:
    """The names and what they are bound to; secrets are known as such from now on.

    `option` is where the settings come from; None: they are arguments.
    """
    found: dict[str, Any] = {}
    for setting in settings:
        name, value = _binding(setting, option)
        _add(found, name, value)
    for setting in secrets:
        _add(found, *_secret(setting))
    return found


def _add(found: dict[str, Any], name: str, value: Any) -> None:
    if name in found:
        raise click.UsageError(f"{name!r} is given twice")
    found[name] = value


def _binding(setting: str, option: str | None) -> tuple[str, Any]:
    name, sign, text = setting.partition("=")
    if not name or not sign:
        what = f"{option} takes NAME=VALUE" if option is not None else "inputs are given as NAME=VALUE"
        raise click.UsageError(f"{what}; {setting!r} is none")
    if text.startswith("@"):
        return name, read_input(text[1:]).decode("utf-8", "replace")
    try:
        return name, json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        return name, text


def _secret(setting: str) -> tuple[str, Any]:
    """A name, and the secret it is bound to. The value is never an argument: others can read these."""
    import os

    from weft.secrets.marked import Secret

    name, _, variable = setting.partition("=")
    variable = variable or name
    if not name.isprintable() or not name:
        raise click.UsageError(f"--secret takes NAME or NAME=VARIABLE; {setting!r} is none")
    value = os.environ.get(variable)
    if not value:
        raise click.UsageError(f"--secret {name}: the environment variable {variable} is not set")
    return name, Secret(value, name)


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise click.UsageError(f"--set: {digits} is too large for a number")
    return number


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
