"""Access to a provider: protocol, address and key. Imports nothing slow."""

import importlib.util
from collections.abc import Mapping

from msgspec import Struct

from weft.config.sections import KEY_VARIABLES, ModelsSettings, ProviderKind, ProviderSettings
from weft.config.toml import LOCAL, InvalidSetting, check_base_url, meant
from weft.llm.errors import ModelError
from weft.llm.providers.kinds import KINDS
from weft.secrets.registry import register


class ApiKey:
    """An API key that its repr does not show."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the key itself, for the client that sends it."""
        return self._text

    def __repr__(self) -> str:
        return "ApiKey(...)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ApiKey) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


class Access(Struct, frozen=True, kw_only=True):
    """Everything that a request to a provider needs."""

    name: str
    kind: ProviderKind
    base_url: str | None
    key: ApiKey | None
    """None if the server needs no key."""
    key_variable: str | None
    """The environment variable that holds the key."""
    settings: ProviderSettings


def provider_names(settings: ModelsSettings) -> list[str]:
    """Return the names of the built-in providers, then of the configured ones."""
    return [*KEY_VARIABLES, *(name for name in settings.providers if name not in KEY_VARIABLES)]


def access_to(
    name: str, settings: ModelsSettings, environment: Mapping[str, str], *, needs_client: bool = True
) -> Access:
    """Return the access to a provider; raise ModelError if a key, a package or a setting is missing.

    `needs_client` is False if another process makes the requests, so that no client package is needed.
    """
    if name not in provider_names(settings):
        hint = meant(name, [*provider_names(settings), LOCAL])
        raise ModelError("configuration_error", f"unknown provider '{name}'{hint}")
    provider = settings.providers.get(name, ProviderSettings())
    kind: ProviderKind = provider.kind or (name if name in KEY_VARIABLES else "openai")  # type: ignore[assignment]
    base_url = provider.base_url or _base_url_of_environment(name, environment)
    variables = _key_variables(name, provider)
    variable = next((variable for variable in variables if environment.get(variable, "").strip()), None)
    key = "" if variable is None else environment[variable].strip()
    if variable is None and (provider.api_key_env or base_url is None):
        raise ModelError(
            "configuration_error",
            f"no key for '{name}': set the environment variable {' or '.join(variables)}",
        )
    if variable is not None:
        _check_key(key, variable)
    if needs_client:
        _require_packages(name, kind)
    if variable is not None:
        register(environment[variable], variable)  # redacted from now on in every log, error and record
    return Access(
        name=name,
        kind=kind,
        base_url=base_url,
        key=ApiKey(key) if key else None,
        key_variable=variable,
        settings=provider,
    )


def _base_url_of_environment(name: str, environment: Mapping[str, str]) -> str | None:
    url = environment.get("OPENAI_BASE_URL", "").strip() if name == "openai" else ""
    if not url:
        return None
    try:
        check_base_url(url, where="OPENAI_BASE_URL")
    except InvalidSetting as error:
        raise ModelError("configuration_error", error.message) from None
    return url


def _key_variables(name: str, provider: ProviderSettings) -> tuple[str, ...]:
    """Return the variables that may hold the key; the first one that is set is used.

    A provider of the settings with its own name and address never gets the key of a built-in provider.
    """
    if provider.api_key_env is not None:
        return (provider.api_key_env,)
    if name in KEY_VARIABLES:
        return KEY_VARIABLES[name]
    if provider.base_url is None and provider.kind is not None:
        return KEY_VARIABLES[provider.kind]
    return ()


def _check_key(key: str, variable: str) -> None:
    """Raise ModelError if the key cannot be sent in a header. The message does not contain the key."""
    if not (key.isascii() and key.isprintable()):
        raise ModelError(
            "configuration_error",
            f"the key in {variable} cannot be sent: it contains a line break, a control character or a "
            "character outside ASCII; copy it again",
        )


def _require_packages(name: str, kind: ProviderKind) -> None:
    if not all(is_installed(package) for package in ("pydantic_ai", KINDS[kind].package)):
        raise ModelError(
            "dependency_error", f"provider '{name}' needs an extra package: pip install 'weft[{kind}]'"
        )


def is_installed(package: str) -> bool:
    """Return True if a package is installed, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
