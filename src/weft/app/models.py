"""Models of a project: which are usable, and the files of embedded ones."""

import os
from importlib.util import find_spec

from weft.config.sections import ModelsSettings
from weft.llm.errors import ModelError
from weft.llm.local import catalogue as catalogue
from weft.llm.local import download as download
from weft.llm.local.models import settings_from
from weft.llm.models import ModelAvailability as ModelAvailability
from weft.llm.models import model_name_problem, resolved, verdicts


def list_models(settings: ModelsSettings) -> tuple[ModelAvailability, ...]:
    """Return the models of the settings and the embedded ones; no network request is made."""
    return verdicts(settings, os.environ, embedded_availability())


def default_model(settings: ModelsSettings) -> tuple[str | None, str | None]:
    """Return the model of tasks that do not name one, and a problem or note about it, or None."""
    try:
        return str(resolved(None, settings)), None if settings.default else "not configured"
    except ModelError as error:
        return settings.default, error.message


def default_problem(settings: ModelsSettings, found: tuple[ModelAvailability, ...]) -> str | None:
    """Return why the configured default model is not usable; None if it is, or none is configured."""
    if settings.default is None:
        return None
    if problem := model_name_problem(settings.default, settings):
        return problem
    provider = resolved(settings.default, settings).provider
    return next((one.why for one in found if one.name == provider and not one.is_usable), None)


def embedded_availability() -> tuple[ModelAvailability, ...]:
    """Return for each embedded model whether it is installed, or how to get it."""
    problem = None if find_spec("xllamacpp") else "needs an extra package: pip install 'weft[local]'"
    try:
        settings_from()
    except ModelError as error:
        problem = error.message
    found = []
    for entry in catalogue.catalogue():
        is_here = catalogue.is_present(entry)
        about = f"{entry.license}, {catalogue.megabytes(entry.memory)} of memory"
        if entry.makes == "embeddings":
            about += "; makes embeddings"
        why = problem or (f"installed; {about}" if is_here else f"{catalogue.how_to_get(entry)}; {about}")
        is_usable = is_here and problem is None
        found.append(
            ModelAvailability(kind="embedded", name=f"local:{entry.name}", is_usable=is_usable, why=why)
        )
    return tuple(found)
