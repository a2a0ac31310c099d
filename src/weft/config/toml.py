"""Read tables of `weft.toml`, with messages about invalid ones."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, inspect

from weft.config.sections import (
    KEY_VARIABLES,
    HandlerSettings,
    ModelParameters,
    ModelsSettings,
    ProviderSettings,
)
from weft.errors import RequestError

T = TypeVar("T", bound=Struct)


class InvalidSetting(RequestError):
    """A setting has an unknown name or an invalid value."""

    code = "invalid-setting"


def tables_of(document: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    """Return the table of tables with this name; empty if it is missing."""
    tables = document.get(name, {})
    if not isinstance(tables, dict):
        raise InvalidSetting(f"{path}: {name} must be a table")
    return tables


def table(kind: type[T], tables: dict[str, Any], name: str, *, where: str) -> T:
    """Convert a table to settings; return the defaults if it is missing."""
    values = tables.get(name, {})
    if not isinstance(values, dict):
        raise InvalidSetting(f"{where} must be a table")
    check_names(values, kind.__struct_fields__, where=where, what="setting")
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise InvalidSetting(f"{where}: {mistake(kind, values) or error}") from error


def check_names(names: Iterable[str], known: Iterable[str], *, where: str, what: str) -> None:
    """Raise InvalidSetting for an unknown name, with a suggestion."""
    known = list(known)
    for name in names:
        if name not in known:
            raise InvalidSetting(f"{where}: unknown {what} '{name}'{meant(name, known)}")


def meant(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: a suggestion, or the list of known names."""
    # Imported here: slow to import, and needed only for mistakes.
    from difflib import get_close_matches

    known = list(known)
    close = get_close_matches(name, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else f" (known: {', '.join(known)})"


def module_name(module: str, *, where: str) -> None:
    """Raise InvalidSetting if the text is not the name of a module."""
    if not all(part.isidentifier() for part in module.split(".")):
        raise InvalidSetting(f"{where}: {module!r} is not the name of a module")


_TYPE_WORDS: tuple[tuple[type[Any], str], ...] = (
    (inspect.BoolType, "true or false"),
    (inspect.IntType, "a whole number"),
    (inspect.FloatType, "a number"),
    (inspect.StrType, "a text"),
    (inspect.DictType, "a table"),
)


def mistake(kind: type[Struct], values: dict[str, Any]) -> str | None:
    """Return a message about the first value that is not valid for its setting; None if all are valid."""
    for field in msgspec.structs.fields(kind):
        if field.name not in values:
            continue
        value = values[field.name]
        try:
            msgspec.convert(value, field.type)
        except msgspec.ValidationError:
            wanted = inspect.type_info(field.type)
            return f"{field.name} must be {_describe_type(wanted)}{_describe_value(value, wanted)}"
    return None


def _describe_type(wanted: inspect.Type) -> str:
    """Describe the type of a setting: "a whole number, at least 1"."""
    match wanted:
        case inspect.UnionType(types=types):
            return " or ".join(_describe_type(one) for one in types if not isinstance(one, inspect.NoneType))
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}"
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return f"a list, each item {_describe_type(item)}"
    words = next((words for known, words in _TYPE_WORDS if isinstance(wanted, known)), "something else")
    return ", ".join([words, *_bounds(wanted)])


def _bounds(wanted: inspect.Type) -> list[str]:
    named = (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than"))
    found = [(words, getattr(wanted, name, None)) for name, words in named]
    return [f"{words} {bound:g}" for words, bound in found if bound is not None]


def _describe_value(value: Any, wanted: inspect.Type) -> str:
    """Describe the actual value. A text is shown only if the setting has fixed words: it may be a secret."""
    if isinstance(value, bool):
        return f"; this is {str(value).lower()}"
    if isinstance(value, int | float):
        return f"; this is {value}"
    words = _allowed_words(wanted)
    if isinstance(value, str) and words:
        suggestion = meant(value, words)
        return f"; this is {value!r}{suggestion if 'did you mean' in suggestion else ''}"
    return ""


def _allowed_words(wanted: inspect.Type) -> list[str]:
    if isinstance(wanted, inspect.UnionType):
        return [word for one in wanted.types for word in _allowed_words(one)]
    return [str(value) for value in wanted.values] if isinstance(wanted, inspect.LiteralType) else []


LOCAL = "local"
"""Provider name of the embedded models."""

_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_KEY_SETTINGS = frozenset({"api_key", "apikey", "key", "token", "secret", "password", "api_token"})


def read_models(tables: dict[str, Any], path: Path) -> ModelsSettings:
    """Read the table `[models]`."""
    where = f"{path}: [models]"
    _refuse_keys(tables, "openai", where)
    check_names(tables, ModelsSettings.__struct_fields__, where=where, what="setting")
    providers = _read_tables(ProviderSettings, tables, "providers", path)
    for name, provider in providers.items():
        _check_provider(name, provider, f"{path}: [models.providers.{name}]")
    settings = ModelsSettings(
        aliases=_checked_aliases(tables_of(tables, "aliases", path), f"{path}: [models.aliases]"),
        providers=providers,
        settings=_read_tables(ModelParameters, tables, "settings", path),
        handler=table(HandlerSettings, tables, "handler", where=f"{path}: [models.handler]"),
    )
    for name in settings.settings:
        _check_model(name, [*KEY_VARIABLES, *providers, LOCAL], f'{path}: [models.settings."{name}"]')
    default = tables.get("default")
    if default is not None and not (isinstance(default, str) and default.strip()):
        raise InvalidSetting(f"{where}: default must be the name of a model, as text")
    return msgspec.structs.replace(settings, default=default)


def _check_model(name: str, providers: list[str], where: str) -> None:
    provider, separator, model = name.partition(":")
    if not (provider and separator and model):
        raise InvalidSetting(f"{where}: the name must be 'provider:model'")
    if provider not in providers:
        raise InvalidSetting(f"{where}: unknown provider '{provider}'{meant(provider, providers)}")


def _read_tables(kind: type[Any], tables: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    """Return the settings of each table in a table, such as `[models.providers.NAME]`."""
    found = tables_of(tables, name, path)
    for key, values in found.items():
        if isinstance(values, dict):
            _refuse_keys(values, key, f"{path}: [models.{name}.{_quoted_key(key)}]")
    return {
        key: table(kind, found, key, where=f"{path}: [models.{name}.{_quoted_key(key)}]") for key in found
    }


def _quoted_key(key: str) -> str:
    return key if _NAME.fullmatch(key) else f'"{key}"'


def _refuse_keys(values: dict[str, Any], provider: str, where: str) -> None:
    """Refuse an API key in the file, without showing it: files are shared, and end up in repositories."""
    for name in values:
        if name.lower().replace("-", "_") in _KEY_SETTINGS:
            variable = KEY_VARIABLES.get(provider, (f"{provider.upper().replace('-', '_')}_API_KEY",))[0]
            raise InvalidSetting(
                f"{where}: a key does not belong in the file: remove '{name}', set the environment variable "
                f'{variable}, and name it with api_key_env = "{variable}" if it is not the usual one'
            )


def _check_provider(name: str, provider: ProviderSettings, where: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidSetting(f"{where}: a provider's name must be lower-case letters, digits, - and _")
    if name == LOCAL:
        raise InvalidSetting(f"{where}: 'local' is the name of the embedded models; choose another")
    if name not in KEY_VARIABLES and provider.kind is None and provider.base_url is None:
        raise InvalidSetting(f"{where} needs base_url, kind (openai, anthropic or google), or both")
    if name in KEY_VARIABLES and provider.kind not in (None, name):
        raise InvalidSetting(f"{where}: the kind of '{name}' is '{name}'; choose another name")
    if provider.api_key_env is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", provider.api_key_env):
        # The value is not shown: it may be the key itself.
        raise InvalidSetting(f"{where}: api_key_env must be the name of an environment variable, not a key")
    if provider.base_url is not None:
        check_base_url(provider.base_url, where=f"{where}: base_url")


def check_base_url(url: str, *, where: str) -> None:
    """Raise InvalidSetting if the URL is not an http(s) address, or contains a user or password."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    else:
        if parts.username is not None or parts.password is not None:
            raise InvalidSetting(f"{where} must not have a user or password in it")
    if not is_good:
        raise InvalidSetting(f"{where} must be an address like http://127.0.0.1:8080/v1")


def _checked_aliases(given: dict[str, Any], where: str) -> dict[str, str]:
    for name, target in given.items():
        if not isinstance(target, str) or not target.strip():
            raise InvalidSetting(f"{where}: '{name}' must be the name of a model, as text")
        if ":" in name or not name.strip():
            raise InvalidSetting(f"{where}: '{name}' is not a valid alias: it is empty or contains ':'")
    for name in given:
        seen = [name]
        while (target := given.get(seen[-1])) is not None:
            if target in seen:
                raise InvalidSetting(f"{where}: aliases form a cycle: {' -> '.join([*seen, target])}")
            seen.append(target)
    return given
