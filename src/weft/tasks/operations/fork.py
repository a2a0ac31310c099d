"""Fork a run: start a new run of the same program that reuses the steps before a given step."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import field

from weft.errors import EXIT_NOT_FOUND, RequestError
from weft.ids import NewTaskId, TaskId
from weft.tasks.decisions import Decision, FlowOperation, Snapshot
from weft.tasks.flow import Flow, find_step_owners
from weft.tasks.operations.copy import IsStep, NewIds, as_copy, derive, with_params
from weft.tasks.parsing.problems import nearest, shown
from weft.tasks.record import JsonObject, Task, evolve
from weft.tasks.steps import is_step, step_fields

FORK = "fork"
"""The entry of `params` with the original run and the step: {"of": id, "from": key, "reuse": false}."""


class CannotFork(RequestError):
    """Only a finished run of a program can be forked, and only from a step, not from a part of one."""

    code = "cannot-fork"


class StepNotFound(RequestError):
    """The run does not have this step."""

    code = "step-not-found"
    exit_code = EXIT_NOT_FOUND

    def __init__(self, *, run_id: TaskId, step: str, keys: Iterable[str]) -> None:
        super().__init__(f"run {run_id} has no step '{shown(step)}'{nearest(step, list(keys))}")
        self.run_id = run_id
        self.step = step


class UnknownInputs(RequestError):
    """The run does not have these inputs."""

    code = "unknown-inputs"

    def __init__(self, *, names: Iterable[str], known: Iterable[str]) -> None:
        names, known = sorted(names), sorted(known)
        has = f"it has {', '.join(map(str, known))}" if known else "it has no inputs"
        super().__init__(
            f"the run has no input called {', '.join(str(shown(name)) for name in names)}; {has}"
        )
        self.names = tuple(names)


class ForkRun(FlowOperation, frozen=True, kw_only=True):
    """Makes a new, pending run with changed inputs; the value is the new flow.

    When it runs, steps before `step` that make the same request are taken over from the original run,
    whatever their kind. `step` and later steps are performed.
    """

    step: str
    """The id or key of the first step to perform; for a question, the step that asked it is used."""
    inputs: JsonObject = field(default_factory=dict)
    """The inputs to change."""
    is_reusing: bool = True
    """Whether results of other runs may be reused from that step on."""
    new_id: NewTaskId
    now: datetime

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

        def make(source: Task, new_ids: NewIds) -> Task:
            copy = as_copy(source, new_ids)
            return with_params(evolve(copy, inputs={**copy.inputs, **self.inputs}), fork=fork)

        return derive(flow, [self.task_id], make, new_id=self.new_id, now=self.now)

    def _key(self, steps: Mapping[str, TaskId]) -> str:
        """Return the key of the step. Raise StepNotFound if the run does not have it."""
        wanted = self.step.lower()
        key = next((key for key, task_id in steps.items() if wanted in (task_id, key)), None)
        if key is None:
            raise StepNotFound(run_id=self.task_id, step=self.step, keys=steps)
        if "?" in key:  # the step that asked holds the answer in its result, so it must be performed again
            return key.partition("?")[0].partition("#")[0]
        if "#" in key:
            raise CannotFork(f"{self.step} is a part of step {key.partition('#')[0]}; fork from that step")
        return key


def _steps(flow: Flow, task: Task) -> dict[str, TaskId]:
    """Return the steps of a run that can be forked, by key. Raise CannotFork or IsStep."""
    made = find_step_owners(flow)
    label = f"{shown(task.name)} ({task.id})"
    if task.id in made:
        raise IsStep(task=task, run_id=made[task.id])
    if task.is_frozen:
        raise CannotFork(f"{label} is an archive; fork the run it was made from: {task.original_task_id}")
    if not task.status.is_terminal:
        raise CannotFork(f"{label} is {task.status}; only a run that is over can be forked")
    steps = {
        step_fields(flow[step_id]).key: step_id
        for step_id, maker in made.items()
        if maker == task.id and is_step(flow[step_id])
    }
    if not steps:
        raise CannotFork(f"{label} has no steps; only a run of a program can be forked")
    return steps


def _input_names(task: Task) -> set[str]:
    """Return the names of inputs that can be set: those already set, and those in the input schema."""
    schema = (task.schemas or {}).get("input_schema") or {}
    return {*task.inputs, *(schema.get("properties") or {})}
