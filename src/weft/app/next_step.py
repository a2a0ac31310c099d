"""Hints about what to do with a run that did not complete."""

from weft.runs.errors import REPLAY_CODES
from weft.runs.outcome import RunOutcome
from weft.tasks.program_params import PROGRAM
from weft.tasks.record import Status, Task

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
