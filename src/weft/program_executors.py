"""The executor of programs, made for a store: it performs their steps as the project's `weft.toml` says."""

from weft.clock import Clock
from weft.evaluator.effects import Effects
from weft.executors.registry import ExecutorRegistry
from weft.ids import NewTaskId
from weft.local_effects import LocalEffects
from weft.runs.executor import NewEffects, TemplateExecutor
from weft.runs.program import StoredProgram
from weft.store.protocol import TaskStore


def with_programs(
    executors: ExecutorRegistry,
    store: TaskStore,
    new_effects: NewEffects | None,
    *,
    clock: Clock,
    new_id: NewTaskId,
    concurrency: int,
) -> ExecutorRegistry:
    """The executors, and the one that evaluates programs of this store."""
    registry = ExecutorRegistry(executors)
    registry.register(
        TemplateExecutor(
            store, new_effects or project_effects, clock=clock, new_id=new_id, concurrency=concurrency
        )
    )
    return registry


def project_effects(program: StoredProgram) -> Effects:
    """What performs the steps of a program when nobody says otherwise."""
    return LocalEffects(model=program.model)
