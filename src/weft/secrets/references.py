"""`{"$secret": "NAME"}`: an input that names a secret; it is stored so, and filled in when it is needed."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from weft.errors import RequestError
from weft.secrets.registry import MIN_CHARACTERS, register

KEY = "$secret"
FORMAT = "format"

Path = tuple[str | int, ...]

_NESTED: frozenset[Any] = frozenset({dict, list})


class SecretSettings(Struct, frozen=True, kw_only=True):
    """`[secrets]`."""

    allow: tuple[str, ...] = ()
    """The environment variables that task records may name as secrets; none by default."""


class SecretNotAllowed(RequestError):
    """A task names a secret that it may not have, or that is not there."""

    code = "secret-not-allowed"


def has_references(value: Any) -> bool:
    """Whether a JSON value holds a reference to a secret."""
    return next(_references(value, ()), None) is not None


def resolved(value: Any, settings: SecretSettings, environment: Mapping[str, str] = os.environ) -> Any:
    """The value with secrets in the place of references; registers them. Raises SecretNotAllowed."""
    if not has_references(value):
        return value
    return _replaced(value, lambda reference: _filled(reference, settings, environment))


def register_named(value: Any, environment: Mapping[str, str] = os.environ) -> None:
    """Keep secret what a value refers to, as far as this process knows it; nobody is given it for that."""
    for _, reference in _references(value, ()):
        register(environment.get(reference[KEY], ""), reference[KEY])


def masked(value: Any) -> tuple[Any, frozenset[Path]]:
    """The value with a text in the place of every reference, and where these are."""
    paths = frozenset(path for path, _ in _references(value, ()))
    return (
        (_replaced(value, lambda reference: f"[secret {reference[KEY]}]"), paths) if paths else (value, paths)
    )


def _references(value: Any, path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    if isinstance(value, dict):
        if _is_reference(value):
            yield path, value
            return
        for key, part in value.items():
            if part.__class__ in _NESTED:
                yield from _references(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            if part.__class__ in _NESTED:
                yield from _references(part, (*path, index))


def _is_reference(value: dict[str, Any]) -> bool:
    return KEY in value and isinstance(value[KEY], str) and value.keys() <= {KEY, FORMAT}


def _replaced(value: Any, fill: Callable[[dict[str, Any]], str]) -> Any:
    if isinstance(value, dict):
        if _is_reference(value):
            return fill(value)
        return {key: _replaced(part, fill) for key, part in value.items()}
    return [_replaced(part, fill) for part in value] if isinstance(value, list) else value


def _filled(reference: dict[str, Any], settings: SecretSettings, environment: Mapping[str, str]) -> str:
    name = reference[KEY]
    if name not in settings.allow:
        listed = ", ".join(settings.allow) or "nothing"
        raise SecretNotAllowed(f"secret '{name}' may not be used; [secrets] allow in weft.toml has {listed}")
    value = environment.get(name)
    if not value:
        raise SecretNotAllowed(f"secret '{name}' is not there: the environment variable {name} is not set")
    if not register(value, name):
        raise SecretNotAllowed(
            f"secret '{name}' has fewer than {MIN_CHARACTERS} characters: no secret to keep"
        )
    form = reference.get(FORMAT, "{}")
    if not isinstance(form, str) or form.count("{}") != 1:
        raise SecretNotAllowed(f"secret '{name}': the format {form!r} must be a text with one {{}} in it")
    return form.replace("{}", value)
