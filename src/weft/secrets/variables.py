"""Environment variables that hold secrets, as far as their names and values tell."""

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from weft.secrets.registry import register

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
