"""`weft.evaluate`: evaluate a program in a script or notebook, without storing anything."""

import asyncio
import os
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from weft.config.settings import load_settings
from weft.effects.asked_models import require_models
from weft.effects.checks import Definition, KnownNames, require_valid
from weft.effects.local import LocalEffects
from weft.evaluator.budget import EvaluationLimits
from weft.evaluator.effects import Effects
from weft.evaluator.evaluator import Evaluator
from weft.evaluator.functions import BuiltIn
from weft.evaluator.tools import Tools
from weft.language.ast import Define, Node, Program
from weft.language.builder.tasks import HasTemplate
from weft.language.builder.tasks import program as build_program
from weft.language.builtins import TASK_LIBRARY
from weft.language.diagnostics import invalid_program
from weft.language.file_paths import find_required_files
from weft.language.library import TaskLibrary
from weft.language.reading import read_text
from weft.language.source import NOWHERE
from weft.language.traversal import used_names
from weft.llm.protocol import Model, StaticModels
from weft.runs.files import read_file

AnyProgram = str | Path | Program | Node | HasTemplate | Sequence[Node | HasTemplate]
"""Source text (S-expressions, or XML if it begins with `<`), a file, a program, a node, or forms."""


def evaluate(
    program: AnyProgram,
    *,
    effects: Effects | None = None,
    library: TaskLibrary | None = None,
    limits: EvaluationLimits | None = None,
    model: str | Model | None = None,
    tools: Tools | None = None,
    **bindings: Any,
) -> Any:
    """Evaluate a program and return its value; `bindings` are names it can use.

    Without `effects`, models, tools and scripts are used with the settings of the project's `weft.toml`.
    `model` is the name of the model for tasks that do not name one, or a `Model`, which then serves all
    tasks. `tools` replace the tools of the project. Raise InvalidProgram before anything is run, TaskFailed
    or another WeftError afterwards.
    """

    async def work() -> Any:
        try:
            return await evaluate_async(
                program,
                effects=effects,
                library=library,
                limits=limits,
                model=model,
                tools=tools,
                **bindings,
            )
        finally:
            # The event loop ends here: connections left open in it could never be closed.
            if isinstance(effects, LocalEffects):
                await effects.close()

    def run() -> Any:
        return asyncio.run(work())

    if not _is_loop_running():
        return run()
    # A notebook: its event loop is blocked by this call, so the program needs another one.
    with ThreadPoolExecutor(1, thread_name_prefix="weft") as thread:
        return thread.submit(run).result()


async def evaluate_async(
    program: AnyProgram,
    *,
    effects: Effects | None = None,
    library: TaskLibrary | None = None,
    limits: EvaluationLimits | None = None,
    model: str | Model | None = None,
    tools: Tools | None = None,
    **bindings: Any,
) -> Any:
    """Evaluate a program in the running event loop; see `evaluate`.

    Use an `Evaluator` to evaluate several programs that share their definitions.
    """
    own = None
    if effects is None:
        effects = own = _local_effects(model, tools)
    elif model is not None or tools is not None:
        raise invalid_program(
            NOWHERE,
            "bad-value",
            "give either `effects` or `model` and `tools`: effects have their own models and tools",
        )
    try:
        evaluator = Evaluator(effects, library=_copy_library(library), limits=limits)
        forms = read(program)
        require_sound(forms, evaluator, effects, bindings)
        if own is not None and (model is None or isinstance(model, str)):
            _require_models(forms, evaluator.library, model)
        if isinstance(effects, LocalEffects):
            library_forms = [one.template for one in evaluator.library]
            await effects.require_files(find_required_files(forms.forms, library_forms, bindings))
        return await evaluator.evaluate(forms, bindings)
    finally:
        if own is not None:
            await own.close()


def require_sound(
    program: Program,
    evaluator: Evaluator,
    effects: Effects,
    bindings: Collection[str],
    functions: Sequence[Define] = (),
) -> None:
    """Raise InvalidProgram with all problems found by the checks, before the first effect.

    `functions` are the functions of loaded libraries. A program that reaches no task, tool call or query is
    not checked: running it costs nothing, and `try` can catch its errors.
    """
    globals_ = evaluator.global_env
    bound = {name for name in globals_ if name != TASK_LIBRARY and not isinstance(globals_[name], BuiltIn)}
    used = used_names(program.forms)
    if not used.is_acting and (used.called | used.mentioned).isdisjoint(
        bound | evaluator.library.tasks.keys()
    ):
        return
    definitions: list[Definition] = [*(one.template for one in evaluator.library), *functions]
    require_valid(program, definitions, _known_names(effects), bound.union(bindings))


def _known_names(effects: Effects) -> KnownNames:
    if isinstance(effects, LocalEffects):
        return effects.known_names()
    return KnownNames(effects.tools(), None, effects.schema_text)


def _require_models(program: Program, library: TaskLibrary, model: str | None) -> None:
    require_models(program.forms, library, lambda: load_settings().models, os.environ, model=model)


def _local_effects(model: str | Model | None, tools: Tools | None) -> LocalEffects:
    if model is None or isinstance(model, str):
        return LocalEffects(model=model, tools=tools)
    return LocalEffects(models=StaticModels(model), tools=tools)


def read(program: AnyProgram) -> Program:
    """Read or build a program; raise InvalidProgram for other Python objects."""
    if isinstance(program, Program):
        return program
    if isinstance(program, str):
        return read_text(program, "<text>")
    if isinstance(program, Path):
        return read_file(program)
    if isinstance(program, Node | HasTemplate):
        return build_program(program)
    if isinstance(program, Sequence) and not isinstance(program, bytes | bytearray | memoryview):
        return build_program(*program)
    kind = f"a Python {type(program).__name__}"
    raise invalid_program(
        NOWHERE, "bad-value", f"a program is source text, a file, a node or a list of forms, not {kind}"
    )


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _copy_library(library: TaskLibrary | None) -> TaskLibrary | None:
    """Copy a library, so that templates defined by the program are not added to the caller's."""
    if library is None:
        return None
    copied = TaskLibrary()
    copied.tasks.update(library.tasks)
    return copied
