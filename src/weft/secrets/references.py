"""Secrets as Python values, as references in inputs (`{"$secret": "NAME"}`), and in environment variables."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from weft.errors import RequestError
from weft.secrets.registry import MIN_CHARACTERS, register


class SecretTooShort(RequestError):
    """The value is too short to be kept secret, because it would match in ordinary text."""

    code = "secret-too-short"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the secret '{name}' has fewer than {MIN_CHARACTERS} characters: too short to be redacted"
        )


class Secret:
    """A value that programs can use and weft never shows: `evaluate(..., token=weft.Secret(value, "T"))`."""

    __slots__ = ("_name", "_value")

    def __init__(self, value: str, name: str = "secret") -> None:
        if not register(value, name):
            raise SecretTooShort(name)
        self._value = value
        self._name = name

    def reveal(self) -> str:
        """Return the value itself."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self._name!r})"

    def __str__(self) -> str:
        return f"[secret {self._name}]"


def secret(value: str, name: str = "secret") -> Secret:
    """Create a value that programs can use and that is redacted in every log, error and record."""
    return Secret(value, name)


KEY = "$secret"
FORMAT = "format"

Path = tuple[str | int, ...]
"""The keys and indexes that lead to a part of a JSON value."""

_CONTAINERS: frozenset[Any] = frozenset({dict, list})


class SecretSettings(Struct, frozen=True, kw_only=True):
    """The section `[secrets]` of `weft.toml`."""

    allow: tuple[str, ...] = ()
    """The environment variables that task records may use as secrets."""


class SecretNotAllowed(RequestError):
    """A task refers to a secret that is not allowed, not set or unusable."""

    code = "secret-not-allowed"


def has_references(value: Any) -> bool:
    """Return True if a JSON value contains a reference to a secret."""
    return next(_references(value, ()), None) is not None


def resolved(value: Any, settings: SecretSettings, environment: Mapping[str, str] = os.environ) -> Any:
    """Replace references with their secrets, and register the secrets. Raise SecretNotAllowed."""
    if not has_references(value):
        return value
    return _replace(value, lambda reference: _look_up(reference, settings, environment))


def register_named(value: Any, environment: Mapping[str, str] = os.environ) -> None:
    """Register the secrets that a value refers to, if this process has them; replace nothing."""
    for _, reference in _references(value, ()):
        register(environment.get(reference[KEY], ""), reference[KEY])


def masked(value: Any) -> tuple[Any, frozenset[Path]]:
    """Replace references with the text `[secret NAME]`; return the value and the paths of the references."""
    paths = frozenset(path for path, _ in _references(value, ()))
    return (
        (_replace(value, lambda reference: f"[secret {reference[KEY]}]"), paths) if paths else (value, paths)
    )


def _references(value: Any, path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    if isinstance(value, dict):
        if _is_reference(value):
            yield path, value
            return
        for key, part in value.items():
            if part.__class__ in _CONTAINERS:
                yield from _references(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            if part.__class__ in _CONTAINERS:
                yield from _references(part, (*path, index))


def _is_reference(value: dict[str, Any]) -> bool:
    return KEY in value and isinstance(value[KEY], str) and value.keys() <= {KEY, FORMAT}


def _replace(value: Any, fill: Callable[[dict[str, Any]], str]) -> Any:
    if isinstance(value, dict):
        if _is_reference(value):
            return fill(value)
        return {key: _replace(part, fill) for key, part in value.items()}
    return [_replace(part, fill) for part in value] if isinstance(value, list) else value


def _look_up(reference: dict[str, Any], settings: SecretSettings, environment: Mapping[str, str]) -> str:
    name = reference[KEY]
    if name not in settings.allow:
        listed = ", ".join(settings.allow) or "nothing"
        raise SecretNotAllowed(f"secret '{name}' may not be used; [secrets] allow in weft.toml has {listed}")
    value = environment.get(name)
    if not value:
        raise SecretNotAllowed(f"secret '{name}' is missing: the environment variable {name} is not set")
    if not register(value, name):
        raise SecretNotAllowed(
            f"secret '{name}' has fewer than {MIN_CHARACTERS} characters: too short to be redacted"
        )
    form = reference.get(FORMAT, "{}")
    if not isinstance(form, str) or form.count("{}") != 1:
        raise SecretNotAllowed(f"secret '{name}': the format {form!r} must be a string with one {{}}")
    return form.replace("{}", value)


MIN_CHARACTERS_UNMARKED = 12
"""Shortest value that is registered only for its variable's name: `postgres` occurs in ordinary text."""

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|(?:ACCESS|SECRET|PRIVATE)_KEY)$"
    r"|^PGPASSWORD$|_PWD$|_PAT$",
    re.IGNORECASE,
)
_KEY_NAME = re.compile(r"_KEY$", re.IGNORECASE)
_KEY_VALUE = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+/=.~-]{16,}")


def register_environment(environment: Mapping[str, str]) -> None:
    """Register the secrets in the values of all variables, as `register_variable` does."""
    for name, value in environment.items():
        register_variable(name, value)


def register_variable(name: str, value: str) -> None:
    """Register the value of a variable named like a secret, and the password in a value that is a URL."""
    register_password(value, name)
    if is_secret_name(name) or (_KEY_NAME.search(name) and _KEY_VALUE.fullmatch(value)):
        _register_likely(value, name)


def register_password(url: str, name: str) -> None:
    """Register the password of a URL; a text that is not a URL is ignored."""
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
    """Return True if a variable is named like a key, a token or a password."""
    return _SECRET_NAME.search(name) is not None


def _register_likely(value: str, name: str) -> None:
    """Register a value unless it is too short or a number, and so probably not a secret."""
    value = value.strip()
    if len(value) >= MIN_CHARACTERS_UNMARKED and not value.isdigit():
        register(value, name)
