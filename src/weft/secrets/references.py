"""`{"$secret": "NAME"}` in inputs, and environment variables that hold secrets."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

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


MIN_CHARACTERS_UNMARKED = 12
"""Shorter values are secrets only when somebody says so: `postgres` or `100000` is in too many texts."""

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|(?:ACCESS|SECRET|PRIVATE)_KEY)$"
    r"|^PGPASSWORD$|_PWD$|_PAT$",
    re.IGNORECASE,
)
_KEY_NAME = re.compile(r"_KEY$", re.IGNORECASE)
_LIKE_A_KEY = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+/=.~-]{16,}")


def register_environment(environment: Mapping[str, str]) -> None:
    """Keep the values of all variables secret that are named like keys, tokens and passwords."""
    for name, value in environment.items():
        register_variable(name, value)


def register_variable(name: str, value: str) -> None:
    """Keep the value of a variable secret, if it is named like a secret, and the password of a URL in it."""
    register_password(value, name)
    if is_secret_name(name) or (_KEY_NAME.search(name) and _LIKE_A_KEY.fullmatch(value)):
        _register_likely(value, name)


def register_password(url: str, name: str) -> None:
    """Keep the password of a URL secret; of a text that is none, nothing."""
    if "://" not in url or "@" not in url:
        return
    try:
        password = urlsplit(url.strip()).password
    except ValueError:
        return
    if password:
        _register_likely(password, name)
        _register_likely(unquote(password), name)


def is_secret_name(name: str) -> bool:
    """Whether a variable is named like a key, a token or a password."""
    return _SECRET_NAME.search(name) is not None


def _register_likely(value: str, name: str) -> None:
    value = value.strip()
    if len(value) >= MIN_CHARACTERS_UNMARKED and not value.isdigit():
        register(value, name)
