"""What to do about a run that did not complete: only what can help."""

import re

from weft.runs.errors import differs
from weft.runs.outcome import RunOutcome
from weft.tasks.program_params import PROGRAM
from weft.tasks.record import Status, Task

_CODE = re.compile(r"[^\n]*?:\d+:\d+: ([a-z-]+): ")
"""Where the error of a run has its code: after the place."""

_OPTIONS = {
    "tokens-exhausted": ("tokens", "--budget-tokens N"),
    "cost-exhausted": ("cost", "--budget-cost DOLLARS"),
    "steps-exhausted": ("steps", "--max-steps N"),
    "execution-timeout": ("seconds", "--timeout SECONDS"),
}
"""The limits of a run, and what gives it another."""

_MAY_PASS = frozenset({"task-failed", "execution-timeout", ""})
"""Failures of steps, which are performed again. Others are the program's own: it fails there each time."""


def advice(root: Task, outcome: RunOutcome) -> str:
    """What somebody who looks at the run can do now."""
    anew = f"make a new run that reuses what models answered: weft tasks copy --reuse {root.id}"
    if outcome.status is Status.CANCELLED:
        return f"cancelled, for good; {anew}"
    if differs(root.error):
        return f"it cannot go on; {anew}"
    if outcome.is_halted:
        return f"failed, for a step of it was cancelled, and that is for good; {anew}"
    code = _code(root.error)
    limit, option = _OPTIONS.get(code, ("", ""))
    if limit in ((root.params or {}).get(PROGRAM) or {}).get("limits", {}):
        return f"failed; go on with a larger limit: weft run --resume {root.id} {option}"
    if code in _MAY_PASS:
        return f"failed; try again what failed with: weft run --resume {root.id}"
    return "failed, and would again; mend the program and run it anew: what models answered is reused"


def _code(error: str | None) -> str:
    found = _CODE.match(error or "")
    return "" if found is None else found[1]
