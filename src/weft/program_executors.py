"""The executor of programs, made for a store: it performs their steps as the project's `weft.toml` says."""

from collections.abc import Collection

from weft.clock import Clock
from weft.evaluator.effects import Effects
from weft.executors.protocol import Executor
from weft.executors.registry import ExecutorRegistry
from weft.ids import NewTaskId
from weft.local_effects import LocalEffects
from weft.model_settings import ModelsSettings
from weft.runs.executor import NewEffects, RegisteredExecutor, TemplateExecutor
from weft.runs.program import StoredProgram
from weft.runs.templates import read_name
from weft.store.protocol import TaskStore


def with_programs(
    executors: ExecutorRegistry,
    store: TaskStore,
    new_effects: NewEffects | None,
    *,
    clock: Clock,
    new_id: NewTaskId,
    concurrency: int,
    models: ModelsSettings,
) -> ExecutorRegistry:
    """The executors, and the one that evaluates programs of this store."""
    programs = TemplateExecutor(
        store,
        new_effects or project_effects,
        clock=clock,
        new_id=new_id,
        concurrency=concurrency,
        models=models,
    )

    async def find_more(methods: Collection[str]) -> list[Executor]:
        """One for each method that is the name of a registered template, whoever registered it and when."""
        names = {method: read_name(method).name for method in methods}
        known = await store.known_templates(names.values())
        return [RegisteredExecutor(method, programs) for method, name in names.items() if name in known]

    registry = ExecutorRegistry(executors, find_more=find_more)
    registry.register(programs)
    return registry


def project_effects(program: StoredProgram) -> Effects:
    """What performs the steps of a program when nobody says otherwise."""
    return LocalEffects(model=program.model, folder=program.folder)
