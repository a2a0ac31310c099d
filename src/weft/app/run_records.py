"""Records of program runs: what `App` stores, changes and reads of them, and what to do with a failed one."""

from collections.abc import Iterable

from msgspec import Struct, structs

from weft.config.sections import ModelsSettings
from weft.errors import RequestError
from weft.runs.errors import REPLAY_CODES, NoRun
from weft.runs.outcome import RunOutcome, outcome_of
from weft.runs.program import LoadedProgram, NoProgram, StoredProgram, as_params, pin_model, program_of
from weft.runs.template_tasks import is_run, require_arguments
from weft.store.protocol import TaskStore
from weft.tasks.program_params import PROGRAM, TEMPLATE
from weft.tasks.record import JsonObject, Status, Task


class CannotChange(RequestError):
    """This option cannot be changed when a run is resumed."""

    code = "cannot-change"


class ResumeOptions(Struct, frozen=True, kw_only=True):
    """Settings that may be changed when a run is resumed; they are stored with the run."""

    limits: dict[str, float] = {}
    """New limits by name. Budgets include earlier usage; a time limit restarts with each evaluation."""
    is_fresh: bool = False
    """Whether results of earlier runs are not reused."""

    def __bool__(self) -> bool:
        return bool(self.limits) or self.is_fresh

    def require_possible(self, root: Task, *, is_held: bool) -> None:
        """Raise CannotChange if the run has ended, or another process performs it (`is_held`)."""
        if root.status in (Status.COMPLETED, Status.CANCELLED):
            raise CannotChange(f"run {root.id} is {root.status}: it cannot be changed any more")
        if is_held:
            raise CannotChange(f"run {root.id} is running in another process; stop that process first")

    def apply_to(self, program: StoredProgram) -> StoredProgram:
        return structs.replace(
            program,
            limits={**program.limits, **self.limits},
            is_reusing=program.is_reusing and not self.is_fresh,
        )


class RunRecords:
    """Program runs of a store."""

    def __init__(self, store: TaskStore, models: ModelsSettings) -> None:
        self._store = store
        self._models = models

    def document(
        self, program: LoadedProgram | StoredProgram, inputs: JsonObject, name: str
    ) -> tuple[JsonObject, str | None]:
        """Return the root task of a new run as a document, and the folder in which the program runs."""
        stored = program.stored if isinstance(program, LoadedProgram) else program
        pinned = structs.replace(stored, model=pin_model(stored.model, self._models), folder=None)
        schemas = {"method": TEMPLATE}
        document = {"name": name, "inputs": inputs, "schemas": schemas, "params": as_params(pinned)}
        return document, stored.folder

    async def require_run(self, root: Task) -> None:
        """Raise NoRun if the task is not the root of a program run."""
        if not await is_run(self._store, root):
            raise NoRun(root_id=root.id, name=root.name)

    def changed_params(self, root: Task, changes: ResumeOptions) -> JsonObject:
        """Return the `params` of a run with changed options; raise CannotChange if it has no program."""
        try:
            return as_params(changes.apply_to(program_of(root)))
        except NoProgram:
            raise CannotChange(
                f"{root.id} is not a program run: it has no budget and reuses no results"
            ) from None

    async def require_arguments(self, tasks: Iterable[Task]) -> None:
        """Raise InvalidTasks if inputs of tasks do not match the templates that the tasks name."""
        await require_arguments(self._store, tasks)

    async def outcome_of(self, task: Task) -> RunOutcome:
        """Return how the run of a task ended; raise NoRun if its result is not that of a program."""
        return await outcome_of(self._store, task)


_LIMIT_OPTIONS = {
    "tokens-exhausted": ("tokens", "--budget-tokens N"),
    "cost-exhausted": ("cost", "--budget-cost DOLLARS"),
    "steps-exhausted": ("steps", "--max-steps N"),
    "execution-timeout": ("seconds", "--timeout SECONDS"),
}
"""By error code: the limit that a run reached, and the option that changes it."""

_RETRIED_CODES = frozenset({"task-failed", "execution-timeout"})
"""Error codes of failed steps, which are retried on resume. With other codes the program itself is wrong, and
a resumed run would fail again."""


def next_step_hint(root: Task, outcome: RunOutcome) -> str:
    """Return one line that says how the run ended and which command may help."""
    copy = f"copy it to a new run that reuses finished model calls: weft tasks copy --reuse {root.id}"
    if outcome.status is Status.CANCELLED:
        return f"cancelled, so it cannot be resumed; {copy}"
    if outcome.code in REPLAY_CODES:
        return f"failed on replay, so it cannot be resumed; {copy}"
    if outcome.is_step_cancelled:
        return f"failed because a step was cancelled, so it cannot be resumed; {copy}"
    limit, option = _LIMIT_OPTIONS.get(outcome.code, ("", ""))
    if limit in ((root.params or {}).get(PROGRAM) or {}).get("limits", {}):
        return f"failed at its limit; resume with a larger one: weft run --resume {root.id} {option}"
    if outcome.code in _RETRIED_CODES:
        return f"failed; retry the failed steps with: weft run --resume {root.id}"
    return "failed permanently: fix the program and run it again (finished model calls are reused)"
