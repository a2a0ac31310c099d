"""Errors of a run that are not failures of a task in it."""

from weft.errors import RequestError, WeftError
from weft.evaluator.effects import Step
from weft.evaluator.errors import EvaluationAborted
from weft.language.source import NOWHERE, Span
from weft.tasks.parsing.problems import shown


class RunLost(EvaluationAborted, WeftError):
    """Another worker has taken over the task; this attempt stores nothing more."""

    code = "run-lost"

    def __init__(self, *, task_id: str) -> None:
        super().__init__(f"task {task_id} was taken over by another worker")
        self.task_id = task_id


class NoRun(RequestError):
    """The task belongs to a flow, not to a run of a program."""

    code = "no-run"

    def __init__(self, *, root_id: str, name: str) -> None:
        super().__init__(
            f"'{shown(name)}' ({root_id}) is a flow, not a run of a program; resume it with: "
            f"weft flow run {root_id}"
        )
        self.root_id = root_id


class ReplayDiffers(EvaluationAborted, RequestError):
    """The request of a resumed program differs from the recorded one: the program is not deterministic."""

    code = "replay-differs"
    exit_code = 1

    def __init__(self, *, key: str, span: Span, before: str, now: str) -> None:
        location = "" if span is NOWHERE else f" at {span}"
        super().__init__(
            f"step {key}{location}: replay mismatch: recorded {before}, now {now}. "
            f"The program is not deterministic."
        )
        self.key = key
        self.span = span


class StepsLeft(EvaluationAborted, RequestError):
    """A resumed program ended without reaching a recorded step: the program is not deterministic."""

    code = "steps-left"
    exit_code = 1

    def __init__(self, *, key: str, name: str, count: int, last: Step | None = None) -> None:
        """Create the error; `last` is the last step that the program reached this time."""
        more = f" and {count - 1} more" if count > 1 else ""
        where = "" if last is None else f" (last step: {last.key} at {last.place})"
        super().__init__(
            f"step {key} ({name}){more}: recorded before, but not reached by the resumed program{where}. "
            f"The program is not deterministic."
        )
        self.key = key


REPLAY_CODES = (ReplayDiffers.code, StepsLeft.code)
"""Codes of a run that cannot be resumed, because its program does something else than before."""
