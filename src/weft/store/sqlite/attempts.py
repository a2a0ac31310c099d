"""Starting, reporting, ending, resting and giving back attempts: statements guarded by state and attempt."""

from weft.store.attempts import claim_facts, dependencies_at_rest, ending, refusal
from weft.store.columns import json_text
from weft.store.protocol import Claim, Ending, Rest
from weft.store.requests import GiveBack, Report, Start
from weft.store.sqlite.operations import read_task
from weft.store.sqlite.rows import micros
from weft.store.sqlite.steps import end_open_steps
from weft.store.sqlite.writing import SQL, Writing
from weft.tasks.events import EventType
from weft.tasks.states import fraction

_START, _REPORT, _FINISH = SQL["start_task"], SQL["report_progress"], SQL["finish_task"]
_RETRY, _GIVE_BACK = SQL["retry_task"], SQL["give_back"]


def start(writing: Writing, request: Start) -> Claim:
    """Begin an attempt of one task."""
    now, owner = micros(request.now), request.owner
    row = writing.execute(
        _START, (now, request.worker, request.task_id, owner.is_everyone, owner.user_id)
    ).fetchone()
    if row is None:
        raise refusal(request, read_task(writing, request.task_id, owner))
    claim = Claim(request.task_id, row[0], request.worker, row[1], row[2])
    writing.tell(claim, EventType.TASK_STARTED, now, claim_facts(claim))
    return claim


def report(writing: Writing, request: Report) -> bool:
    """Store an attempt's progress."""
    claim, now = request.claim, micros(request.now)
    progress = fraction(request.progress)
    is_held = writing.execute(_REPORT, (progress, now, *_guard(claim))).rowcount == 1
    if is_held:
        writing.tell(claim, EventType.TASK_PROGRESSED, now, {"progress": progress})
    return is_held


def end(writing: Writing, request: Ending) -> bool:
    """End an attempt: for good, or until its retry."""
    claim, at = request.claim, micros(request.outcome.at)
    retry_at = None if request.retry_after is None else writing.now + request.retry_after
    columns, events = ending(request, retry_at)
    if retry_at is not None:
        began_at = micros(writing.now)
        done = writing.execute(_RETRY, (columns[2], micros(retry_at), began_at, *_guard(claim)))
        is_held = done.rowcount == 1
    else:
        row = writing.execute(_FINISH, (*columns, at, *_guard(claim))).fetchone()
        is_held = row is not None
        if is_held:
            writing.ended[columns[0] == "completed"].append(row[0])
            if row[1]:
                end_open_steps(writing, claim.task_id, at)
    if is_held:
        for kind, facts in events:
            writing.tell(claim, kind, at, facts)
    return is_held


def rest(writing: Writing, request: Rest) -> bool:
    """End an attempt without an outcome: its task waits until one of others has ended."""
    claim, at, task_id = request.claim, micros(request.at), request.claim.task_id
    wake_at = None if request.wake_at is None else micros(request.wake_at)
    if writing.execute(SQL["rest_task"], (at, wake_at, *_guard(claim))).rowcount != 1:
        return False
    row = writing.execute(SQL["has_ended"], (json_text(request.until),)).fetchone()
    dependencies = dependencies_at_rest(request, has_ended=bool(row[0]))
    writing.execute(SQL["delete_dependents_of"], (task_id,))
    writing.execute(SQL["set_dependencies"], (json_text(dependencies), task_id))
    writing.executemany(SQL["insert_dependent"], [(one.id, task_id, one.required) for one in dependencies])
    writing.execute(SQL["recount_waiting"], (task_id,))
    writing.tell(claim, EventType.TASK_RESTED, at, {**claim_facts(claim), "until": request.until})
    return True


def give_back(writing: Writing, request: GiveBack) -> bool:
    """Let another worker take the attempt over."""
    claim, now = request.claim, micros(request.now)
    is_held = writing.execute(_GIVE_BACK, (now, *_guard(claim))).rowcount == 1
    if is_held:
        writing.tell(claim, EventType.TASK_GIVEN_BACK, now, claim_facts(claim))
    return is_held


def _guard(claim: Claim) -> tuple[object, ...]:
    return claim.task_id, claim.attempt, claim.worker, claim.user_id
