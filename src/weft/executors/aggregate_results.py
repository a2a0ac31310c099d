"""`aggregate_results`: gathers the results of a task's dependencies into one."""

from typing import Annotated, Literal

from msgspec import Meta

from weft.executors.inputs import Inputs, read_inputs, schema_of
from weft.executors.outputs import result_schema
from weft.executors.protocol import ExecutionFailed, Work
from weft.ids import TaskId
from weft.tasks.problems import nearest
from weft.tasks.record import ExecutorType, JsonObject


class AggregateInputs(Inputs, frozen=True, kw_only=True):
    only: Annotated[
        list[str] | None,
        Meta(description="The dependencies to gather, by id or name; default: all that completed."),
    ] = None
    key_by: Annotated[
        Literal["id", "name"], Meta(description="What the results are keyed by; names must be unique.")
    ] = "id"


class AggregateResults:
    """Collects what the dependencies made."""

    id = "aggregate_results"
    type = ExecutorType.LOCAL
    summary = "Gathers the results of its dependencies, keyed by their ids or names."
    input_schema = schema_of(AggregateInputs)
    output_schema = result_schema(results="object", count="integer")

    async def execute(self, work: Work) -> JsonObject:
        inputs = read_inputs(AggregateInputs, work.inputs)
        chosen = list(work.dependencies) if inputs.only is None else _chosen(inputs.only, work)
        if inputs.key_by == "id":
            results: JsonObject = {task_id: work.dependencies[task_id] for task_id in chosen}
        else:
            results = _by_name(chosen, work)
        return {"results": results, "count": len(results)}


def _chosen(wanted: list[str], work: Work) -> list[TaskId]:
    """The ids of the wanted dependencies, in their order; a name stands for all that have it."""
    chosen: dict[TaskId, None] = {}
    for word in wanted:
        found = [
            task_id
            for task_id in work.dependencies
            if word == task_id or word == work.dependency_names.get(task_id)
        ]
        if not found:
            known = [*work.dependency_names.values(), *work.dependencies]
            raise ExecutionFailed(
                f"no completed dependency is called '{word}'{nearest(word, known)}", is_permanent=True
            )
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def _by_name(chosen: list[TaskId], work: Work) -> JsonObject:
    results: JsonObject = {}
    for task_id in chosen:
        name = work.dependency_names.get(task_id, task_id)
        if name in results:
            raise ExecutionFailed(
                f"several dependencies are called '{name}'; key them by id", is_permanent=True
            )
        results[name] = work.dependencies[task_id]
    return results
