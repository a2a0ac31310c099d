"""Fork a run: a new run of the same program that has what came before one step in common with it."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct

from weft.errors import EXIT_NOT_FOUND, RequestError
from weft.ids import NewTaskId, TaskId
from weft.tasks.decisions import Decision, ReadSet, Snapshot
from weft.tasks.flow import Flow, makers
from weft.tasks.operations.copy import IsStep, NewIds, as_copy, derive
from weft.tasks.parsing.problems import nearest, shown
from weft.tasks.record import JsonObject, Task, evolve
from weft.tasks.steps import is_step, step_fields

FORK = "fork"
"""The entry of `params` that says which run, and from where: {"of": id, "from": key, "reuse": false}."""


class CannotFork(RequestError):
    """Only a run of a program that is over has steps that another run could begin after."""

    code = "cannot-fork"


class StepNotFound(RequestError):
    """The run has no such step."""

    code = "step-not-found"
    exit_code = EXIT_NOT_FOUND

    def __init__(self, *, run_id: TaskId, step: str, keys: Iterable[str]) -> None:
        super().__init__(f"run {run_id} has no step '{shown(step)}'{nearest(step, list(keys))}")
        self.run_id = run_id
        self.step = step


class UnknownInputs(RequestError):
    """Inputs were to be set that the run does not have."""

    code = "unknown-inputs"

    def __init__(self, *, names: Iterable[str], known: Iterable[str]) -> None:
        names, known = sorted(names), sorted(known)
        has = f"it has {', '.join(map(str, known))}" if known else "it has none"
        super().__init__(
            f"the run has no input called {', '.join(str(shown(name)) for name in names)}; {has}"
        )
        self.names = tuple(names)


class ForkRun(Struct, frozen=True, kw_only=True):
    """Makes a new, pending run with inputs changed; its value is that flow.

    When it is evaluated, steps before the named one that ask for the same are linked from the old run,
    whatever their kind; that step and what comes after it is performed.
    """

    task_id: TaskId
    step: str
    """The id or the key of the step from which on everything is performed; of a question, who asked it."""
    inputs: JsonObject = {}
    """Those to change."""
    is_reusing: bool = True
    """Whether answers that other runs have may be linked from that step on."""
    new_id: NewTaskId
    now: datetime

    def needs(self) -> ReadSet:
        return ReadSet(flows_of=(self.task_id,))

    def decide(self, found: Snapshot) -> Decision[Flow]:
        flow = found.flow_of(self.task_id)
        task = flow[self.task_id]
        key = self._key(_steps(flow, task))
        unknown = self.inputs.keys() - _input_names(task)
        if unknown:
            raise UnknownInputs(names=unknown, known=_input_names(task))
        fork: JsonObject = {"of": task.id, "from": key}
        if not self.is_reusing:
            fork["reuse"] = False

        def make(one: Task, new_ids: NewIds) -> Task:
            copy = as_copy(one, new_ids)
            return evolve(
                copy, inputs={**copy.inputs, **self.inputs}, params={**(copy.params or {}), FORK: fork}
            )

        return derive(flow, [self.task_id], make, new_id=self.new_id, now=self.now)

    def _key(self, steps: Mapping[str, TaskId]) -> str:
        """The key of the step; raises StepNotFound."""
        wanted = self.step.lower()
        key = next((key for key, task_id in steps.items() if wanted in (task_id, key)), None)
        if key is None:
            raise StepNotFound(run_id=self.task_id, step=self.step, keys=steps)
        if (
            "?" in key
        ):  # the answer is in the result of the step that asked: to be asked again, it begins anew
            return key.partition("?")[0].partition("#")[0]
        if "#" in key:
            raise CannotFork(f"{self.step} is a part of step {key.partition('#')[0]}; begin with that")
        return key


def _steps(flow: Flow, task: Task) -> dict[str, TaskId]:
    """The steps of a run that can be forked, by key; raises CannotFork, IsStep."""
    made = makers(flow)
    label = f"{shown(task.name)} ({task.id})"
    if task.id in made:
        raise IsStep(task=task, run_id=made[task.id])
    if task.is_frozen:
        raise CannotFork(f"{label} is an archive; fork the run it was made from: {task.original_task_id}")
    if not task.status.is_terminal:
        raise CannotFork(f"{label} is {task.status}; only a run that is over can be forked")
    steps = {
        str(step_fields(flow[one])["key"]): one
        for one, maker in made.items()
        if maker == task.id and is_step(flow[one])
    }
    if not steps:
        raise CannotFork(f"{label} has no steps; only a run of a program can be forked")
    return steps


def _input_names(task: Task) -> set[str]:
    """The names that can be set: those that were, and those that the task's schema has."""
    schema = (task.schemas or {}).get("input_schema") or {}
    return {*task.inputs, *(schema.get("properties") or {})}
