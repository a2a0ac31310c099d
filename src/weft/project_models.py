"""The table `[models]` of `weft.toml`: providers, aliases, and how models are asked."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from weft.model_settings import HandlerSettings, ModelParameters, ModelsSettings, ProviderSettings
from weft.project_tables import InvalidSetting, check_names, meant, table, tables_of

KEY_VARIABLES = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
"""Where the key of each provider that weft knows is looked for, the first that is set."""

LOCAL = "local"
"""The provider part of the embedded models' names."""

_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_SECRETS = frozenset({"api_key", "apikey", "key", "token", "secret", "password", "api_token"})


def read_models(tables: dict[str, Any], path: Path) -> ModelsSettings:
    """The settings of `[models]`."""
    where = f"{path}: [models]"
    _refuse_keys(tables, "openai", where)
    check_names(tables, ModelsSettings.__struct_fields__, where=where, what="setting")
    providers = _many(ProviderSettings, tables, "providers", path)
    for name, provider in providers.items():
        _check_provider(name, provider, f"{path}: [models.providers.{name}]")
    settings = ModelsSettings(
        aliases=_aliases(tables_of(tables, "aliases", path), f"{path}: [models.aliases]"),
        providers=providers,
        settings=_many(ModelParameters, tables, "settings", path),
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


def _many(kind: type[Any], tables: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    """The settings of each table in a table: `[models.providers.NAME]`."""
    found = tables_of(tables, name, path)
    for key, values in found.items():
        if isinstance(values, dict):
            _refuse_keys(values, key, f"{path}: [models.{name}.{_shown(key)}]")
    return {key: table(kind, found, key, where=f"{path}: [models.{name}.{_shown(key)}]") for key in found}


def _shown(key: str) -> str:
    return key if _NAME.fullmatch(key) else f'"{key}"'


def _refuse_keys(values: dict[str, Any], provider: str, where: str) -> None:
    """Refuse a key in the file, without repeating it: files are shared, and end up in repositories."""
    for name in values:
        if name.lower().replace("-", "_") in _SECRETS:
            variable = KEY_VARIABLES.get(provider, (f"{provider.upper().replace('-', '_')}_API_KEY",))[0]
            raise InvalidSetting(
                f"{where}: a key does not belong in the file: remove '{name}', set the environment variable "
                f'{variable}, and name it with api_key_env = "{variable}" if it is not the usual one'
            )


def _check_provider(name: str, provider: ProviderSettings, where: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidSetting(f"{where}: a provider's name is lower-case letters, digits, - and _")
    if name == LOCAL:
        raise InvalidSetting(f"{where}: 'local' is the name of the embedded models; choose another")
    if name not in KEY_VARIABLES and provider.kind is None and provider.base_url is None:
        raise InvalidSetting(f"{where} needs base_url, kind (openai, anthropic or google), or both")
    if name in KEY_VARIABLES and provider.kind not in (None, name):
        raise InvalidSetting(f"{where}: the kind of '{name}' is '{name}'; choose another name")
    if provider.api_key_env is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", provider.api_key_env):
        # Not repeated: it may be the key itself.
        raise InvalidSetting(f"{where}: api_key_env must be the name of an environment variable, not a key")
    if provider.base_url is not None:
        check_base_url(provider.base_url, where=f"{where}: base_url")


def check_base_url(url: str, *, where: str) -> None:
    """Refuse what is not an http(s) address, or has a password in it."""
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


def _aliases(given: dict[str, Any], where: str) -> dict[str, str]:
    for name, target in given.items():
        if not isinstance(target, str) or not target.strip():
            raise InvalidSetting(f"{where}: '{name}' must be the name of a model, as text")
        if ":" in name or not name.strip():
            raise InvalidSetting(f"{where}: '{name}' has a ':' in it or is empty; that is no alias")
    for name in given:
        seen = [name]
        while (target := given.get(seen[-1])) is not None:
            if target in seen:
                raise InvalidSetting(f"{where}: aliases form a cycle: {' -> '.join([*seen, target])}")
            seen.append(target)
    return given
