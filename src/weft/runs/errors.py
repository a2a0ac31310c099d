"""How a run goes wrong that is no failure of a task in it."""

from weft.errors import RequestError, WeftError
from weft.evaluator.effects import Step
from weft.evaluator.errors import EndsEvaluation
from weft.language.source import NOWHERE, Span
from weft.tasks.parsing.problems import shown


class RunLost(EndsEvaluation, WeftError):
    """Another process evaluates the task now; nothing of this evaluation is stored any more."""

    code = "run-lost"

    def __init__(self, *, task_id: str) -> None:
        super().__init__(f"task {task_id} was taken over by another process")
        self.task_id = task_id


class NoRun(RequestError):
    """A task is to go on as a run, and the flow that it is in is no run of a program."""

    code = "no-run"

    def __init__(self, *, root_id: str, name: str) -> None:
        super().__init__(
            f"the flow '{shown(name)}' ({root_id}) is no run of a program; go on with it by: "
            f"weft flow run {root_id}"
        )
        self.root_id = root_id


class ReplayDiffers(EndsEvaluation, RequestError):
    """A program that is evaluated anew does not ask for what it asked for before."""

    code = "replay-differs"
    exit_code = 1

    def __init__(self, *, key: str, span: Span, before: str, now: str) -> None:
        place = "" if span is NOWHERE else f" at {span}"
        super().__init__(
            f"step {key}{place}: {now} is asked for, and {before} was before; the program depends on "
            f"something else than its inputs and the results of its steps"
        )
        self.key = key
        self.span = span


class StepsLeft(EndsEvaluation, RequestError):
    """A program that is evaluated anew ends without asking for what it asked for before."""

    code = "steps-left"
    exit_code = 1

    def __init__(self, *, key: str, name: str, count: int, last: Step | None = None) -> None:
        """`last` is the step that was asked for last this time."""
        more = f" and {count - 1} more" if count > 1 else ""
        where = "" if last is None else f" (the last one that is, is {last.key} at {last.place})"
        super().__init__(
            f"step {key} ({name}){more} was performed before and is not asked for any more{where}; the "
            f"program depends on something else than its inputs and the results of its steps"
        )
        self.key = key


def differs(text: str | None) -> bool:
    """Whether a run has failed because it did not ask for what it had asked for before, from its error."""
    return text is not None and text.startswith((f"{ReplayDiffers.code}: ", f"{StepsLeft.code}: "))
