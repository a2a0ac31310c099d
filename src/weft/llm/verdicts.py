"""Which models can be used now, and why the rest cannot; nobody is asked over the network."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from weft.llm.errors import ModelError
from weft.llm.model_names import resolved
from weft.llm.providers.access import access_to, provider_names
from weft.model_settings import ModelsSettings
from weft.project_models import LOCAL


class Verdict(Struct, frozen=True, kw_only=True):
    """Whether a provider, an alias or an embedded model can be used."""

    kind: Literal["provider", "alias", "embedded"]
    name: str
    is_usable: bool
    why: str
    """Where its key is, what an alias stands for, or what is missing."""


def verdicts(
    settings: ModelsSettings, environment: Mapping[str, str], embedded: tuple[Verdict, ...] = ()
) -> tuple[Verdict, ...]:
    """One for each embedded model, each provider that is known or configured, and each alias."""
    providers = [_of_provider(name, settings, environment) for name in provider_names(settings)]
    known = {verdict.name: verdict for verdict in (*embedded, *providers)}
    aliases = [_of_alias(name, settings, known) for name in settings.aliases]
    return (*embedded, *providers, *aliases)


def _of_provider(name: str, settings: ModelsSettings, environment: Mapping[str, str]) -> Verdict:
    try:
        access = access_to(name, settings, environment)
    except ModelError as error:
        return Verdict(kind="provider", name=name, is_usable=False, why=error.message)
    key = f"key in {access.key_variable}" if access.key_variable else "no key"
    where = f", at {access.base_url}" if access.base_url else ""
    return Verdict(kind="provider", name=name, is_usable=True, why=key + where)


def _of_alias(name: str, settings: ModelsSettings, known: Mapping[str, Verdict]) -> Verdict:
    try:
        target = resolved(name, settings)
    except ModelError as error:
        return Verdict(kind="alias", name=name, is_usable=False, why=error.message)
    if target.provider != LOCAL:
        provider = known[target.provider]
        why = str(target) if provider.is_usable else f"{target}: {provider.why}"
        return Verdict(kind="alias", name=name, is_usable=provider.is_usable, why=why)
    if target.model == "auto":
        is_usable = any(verdict.is_usable for verdict in known.values() if verdict.kind == "embedded")
        why = str(target) if is_usable else f"{target}: no embedded model is there"
        return Verdict(kind="alias", name=name, is_usable=is_usable, why=why)
    found = known.get(str(target))
    if found is not None and not found.is_usable:
        return Verdict(kind="alias", name=name, is_usable=False, why=f"{target}: {found.why}")
    return Verdict(kind="alias", name=name, is_usable=True, why=str(target))
