"""Evaluate programs without storing anything: `weft.evaluate`, and what `weft eval` and `weft repl` use."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from weft.aio import run_sync
from weft.effects.checks import Definition, KnownNames, require_valid
from weft.effects.local import EffectHooks as EffectHooks
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
from weft.language.reading import read_text as read_text
from weft.language.source import NOWHERE
from weft.language.traversal import used_names
from weft.llm import events as events
from weft.llm.protocol import Model, StaticModels
from weft.llm.usage import UsageLedger as UsageLedger
from weft.runs.files import library_path, load_definitions, read_file

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
        async with effects if isinstance(effects, LocalEffects) else nullcontext():
            return await evaluate_async(
                program,
                effects=effects,
                library=library,
                limits=limits,
                model=model,
                tools=tools,
                **bindings,
            )

    return run_sync(work)


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
        evaluation = Evaluation(effects, library=_copy_library(library), limits=limits)
        has_models = own is not None and (model is None or isinstance(model, str))
        return await evaluation.evaluate(read(program), bindings, checks_models=has_models)
    finally:
        if own is not None:
            await own.close()


class Evaluation:
    """An evaluator with its effects; programs are checked before their first effect."""

    def __init__(
        self, effects: Effects, *, library: TaskLibrary | None = None, limits: EvaluationLimits | None = None
    ) -> None:
        self.effects = effects
        self.evaluator = Evaluator(effects, library=library, limits=limits)
        self._functions: list[Define] = []
        """Functions of loaded libraries."""

    async def load_libraries(self, libraries: Sequence[str | Path]) -> None:
        """Load the templates and functions of files, folders and shipped libraries."""
        if libraries:
            definitions = load_definitions([library_path(library) for library in libraries])
            self._functions = [form for form in definitions.forms if isinstance(form, Define)]
            await self.evaluator.evaluate(definitions)

    async def evaluate(
        self, program: Program, bindings: Mapping[str, Any], *, checks_models: bool = True
    ) -> Any:
        """Return the value of a program. Before the first effect, raise InvalidProgram with all problems.

        Also raise ModelUnusable with `checks_models`, and TaskFailed if a file that the program is certain to
        read does not exist.
        """
        self._check(program, bindings)
        if isinstance(self.effects, LocalEffects):
            library = self.evaluator.library
            if checks_models:
                self.effects.require_models(program.forms, library, self._functions)
            definitions = [*(one.template for one in library), *self._functions]
            await self.effects.require_files(find_required_files(program.forms, definitions, bindings))
        return await self.evaluator.evaluate(program, bindings)

    def _check(self, program: Program, bindings: Collection[str]) -> None:
        """Check a program that may have effects.

        One that reaches no task, tool call or query is not checked: running it costs nothing, and `try` can
        catch its errors.
        """
        globals_, library = self.evaluator.global_env, self.evaluator.library
        bound = {name for name in globals_ if not isinstance(globals_[name], BuiltIn)} - {TASK_LIBRARY}
        used = used_names(program.forms)
        if not used.is_acting and (used.called | used.mentioned).isdisjoint(bound | library.tasks.keys()):
            return
        definitions: list[Definition] = [*(one.template for one in library), *self._functions]
        require_valid(program, definitions, _known_names(self.effects), bound.union(bindings))


def _known_names(effects: Effects) -> KnownNames:
    if isinstance(effects, LocalEffects):
        return effects.known_names()
    return KnownNames(effects.tools(), None, effects.schema_text)


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


def _copy_library(library: TaskLibrary | None) -> TaskLibrary | None:
    """Copy a library, so that templates defined by the program are not added to the caller's."""
    if library is None:
        return None
    copied = TaskLibrary()
    copied.tasks.update(library.tasks)
    return copied
