"""What `weft doctor` says of a project's models, its tools, the runtime of embedded models, and aider."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.cli.text import plural
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.llm.verdicts import Verdict
    from weft.model_settings import ModelsSettings

Found = tuple[str, bool, str]
"""What was looked at, whether it is good, and what was found."""


def project_checks() -> list[Found]:
    """Models, tools, the runtime and aider; nobody is asked over the network, and no server is started."""
    looks: dict[str, Callable[[], tuple[bool, str]]] = {
        "models": _models,
        "tools": _tools,
        "runtime": _runtime,
        "aider": _aider,
    }
    return [(name, *_looked(look)) for name, look in looks.items()]


def _looked(look: Callable[[], tuple[bool, str]]) -> tuple[bool, str]:
    try:
        return look()
    except WeftError as error:
        return False, f"{error.code}: {error.message}"


def _models() -> tuple[bool, str]:
    """Whether everything that is configured can be used; a provider that nobody has set up need not be."""
    from weft.cli.models_embedded import embedded_verdicts
    from weft.llm.verdicts import verdicts
    from weft.settings import load_settings

    settings = load_settings().models
    found = verdicts(settings, os.environ, embedded_verdicts())
    wanted = {*settings.providers, *settings.aliases}
    problems = [f"{one.name}: {one.why}" for one in found if one.name in wanted and not one.is_usable]
    default = settings.default or "local:auto"
    if settings.default is not None and (problem := _default_problem(default, settings, found)):
        problems.append(f"default: {problem}")
    usable = sum(one.is_usable and one.kind == "provider" for one in found)
    said = f"default {default}; {plural(usable, 'provider')} can be asked"
    return not problems, "; ".join([said, *problems])


def _default_problem(default: str, settings: "ModelsSettings", found: "tuple[Verdict, ...]") -> str | None:
    """Why the model of tasks that name none cannot be asked."""
    from weft.llm.model_names import model_name_problem, resolved

    if problem := model_name_problem(default, settings):
        return problem
    provider = resolved(default, settings).provider
    return next((one.why for one in found if one.name == provider and not one.is_usable), None)


def _tools() -> tuple[bool, str]:
    import asyncio

    from weft.cli.tools import listed, missing_tool_paths

    problems = missing_tool_paths()
    tools = asyncio.run(listed(is_connecting=False))
    problems += [f"{one.name}: {one.error}" for one in tools if one.error]
    return not problems, "; ".join([f"{plural(len(tools), 'tool')} listed", *problems])


def _runtime() -> tuple[bool, str]:
    from weft.cli.models_embedded import embedded_verdicts

    found = embedded_verdicts()
    here = [one.name for one in found if one.is_usable]
    if here:
        return True, f"embedded models: {', '.join(here)}"
    return True, "; ".join(f"{one.name}: {one.why}" for one in found) or "no embedded models"


def _aider() -> tuple[bool, str]:
    """Where aider is; that it is not here yet is no fault."""
    from weft.aider.program import SIZE, VERSION, find_aider
    from weft.settings import load_settings

    settings = load_settings().executors.aider
    found = find_aider(settings, os.environ)
    if found is not None:
        return True, found.place
    if not settings.install:
        return True, "not here, and [executors.aider] install is off"
    return True, f"not here; version {VERSION} ({SIZE}) is installed when it is first needed"
