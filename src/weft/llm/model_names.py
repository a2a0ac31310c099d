"""Names of models: an alias, or `provider:model`. Nothing here is slow to import."""

from msgspec import Struct

from weft.llm.errors import InvalidModel, ModelError
from weft.llm.providers.access import provider_names
from weft.model_settings import ModelsSettings
from weft.project_models import LOCAL
from weft.project_tables import meant


class ModelName(Struct, frozen=True):
    """Which model of which provider."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


AUTO = ModelName(LOCAL, "auto")
"""The best embedded model that is there."""


def resolved(name: str | None, settings: ModelsSettings, provider: str | None = None) -> ModelName:
    """What a name stands for: aliases followed, the default for None, the provider replaced.

    Raises ModelError when there is no such alias or provider, or half of the name is missing.
    """
    if name is None:
        name = settings.default or (None if provider else str(AUTO))
    if name is None:
        if provider == LOCAL:
            return AUTO
        raise _problem(f"provider '{provider}' is named, but no model: say which one")
    name = _followed(name.strip(), settings)
    found, separator, model = name.partition(":")
    if not separator:
        if provider is None:
            raise _problem(_unknown(name, settings))
        found, model = provider, name
    found = provider or found
    if not found or not model:
        raise _problem(f"'{name}' is no model: a name is 'provider:model'")
    known = [*provider_names(settings), LOCAL]
    if found not in known:
        raise _problem(f"model '{name}': unknown provider '{found}'{meant(found, known)}")
    return ModelName(found, model)


def model_name_problem(name: str, settings: ModelsSettings, provider: str | None = None) -> str | None:
    """What is wrong with the name of a model; None when nothing is that can be known without asking."""
    try:
        found = resolved(name, settings, provider)
    except ModelError as error:
        return error.message
    return _embedded_problem(found.model) if found.provider == LOCAL else None


def _embedded_problem(model: str) -> str | None:
    """What is wrong with the name of an embedded model; whether it is here is not asked."""
    if model == AUTO.model or model.endswith(".gguf") or "/" in model:
        return None
    # Imported here: most names are no names of embedded models.
    from weft.llm.local.catalogue import find_entry
    from weft.llm.local.errors import NoSuchEmbeddedModel

    try:
        entry = find_entry(model)
    except NoSuchEmbeddedModel as error:
        return error.message
    return None if entry.makes == "text" else f"{entry.name} makes embeddings and writes no text"


def _followed(name: str, settings: ModelsSettings) -> str:
    """The end of a chain of aliases; settings made by a program may have a cycle in them."""
    seen = {name}
    while (target := settings.aliases.get(name)) is not None:
        name = target.strip()
        if name in seen:
            raise _problem(f"the alias '{name}' leads back to itself")
        seen.add(name)
    return name


def _unknown(name: str, settings: ModelsSettings) -> str:
    known = [*settings.aliases, *(f"{provider}:" for provider in provider_names(settings)), f"{LOCAL}:auto"]
    hint = meant(name, known) if settings.aliases else ""
    if "/" not in name and _embedded_problem(name) is None:
        hint = f"; did you mean '{LOCAL}:{name}'?"
    return f"unknown model '{name}': it is no alias, and no 'provider:model'{hint}"


def _problem(message: str) -> ModelError:
    return InvalidModel("configuration_error", message)
