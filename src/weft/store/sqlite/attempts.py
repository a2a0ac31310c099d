"""Attempts, workers and leases in SQLite: statements guarded by state and attempt."""

import json
from collections.abc import Sequence
from datetime import timedelta

from weft.ids import TaskId
from weft.store.columns import CLOCK_PUT_BACK, claim_facts, dependencies_at_rest, ending, json_text, refusal
from weft.store.protocol import AttemptResult, Claim, Suspension
from weft.store.requests import (
    AddWorker,
    GiveBack,
    Recover,
    RemoveWorker,
    RenewWorker,
    Report,
    RestartDelays,
    Start,
)
from weft.store.sqlite.operations import read_task
from weft.store.sqlite.rows import micros, moment
from weft.store.sqlite.steps import end_open_steps
from weft.store.sqlite.unit_of_work import SQL, UnitOfWork
from weft.tasks.events import EventType
from weft.tasks.states import fraction

_START, _REPORT, _FINISH = SQL["start_task"], SQL["report_progress"], SQL["finish_task"]
_RETRY, _GIVE_BACK = SQL["retry_task"], SQL["give_back"]


def start(writing: UnitOfWork, request: Start) -> Claim:
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


def report(writing: UnitOfWork, request: Report) -> bool:
    """Store an attempt's progress."""
    claim, now = request.claim, micros(request.now)
    progress = fraction(request.progress)
    is_held = writing.execute(_REPORT, (progress, now, *_guard(claim))).rowcount == 1
    if is_held:
        writing.tell(claim, EventType.TASK_PROGRESSED, now, {"progress": progress})
    return is_held


def end(writing: UnitOfWork, request: AttemptResult) -> bool:
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


def rest(writing: UnitOfWork, request: Suspension) -> bool:
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


def give_back(writing: UnitOfWork, request: GiveBack) -> bool:
    """Let another worker take the attempt over."""
    claim, now = request.claim, micros(request.now)
    is_held = writing.execute(_GIVE_BACK, (now, *_guard(claim))).rowcount == 1
    if is_held:
        writing.tell(claim, EventType.TASK_GIVEN_BACK, now, claim_facts(claim))
    return is_held


def _guard(claim: Claim) -> tuple[object, ...]:
    return claim.task_id, claim.attempt, claim.worker, claim.user_id


def add_worker(writing: UnitOfWork, request: AddWorker) -> None:
    """Make a worker known."""
    methods = None if request.methods is None else json.dumps(request.methods)
    writing.execute(
        SQL["add_worker"], (request.worker, _lease_until(writing, request.lease_seconds), methods)
    )


def renew_worker(writing: UnitOfWork, request: RenewWorker) -> frozenset[Claim] | None:
    """Renew a worker's lease; the claims it holds, or None when it was taken for dead."""
    renewed = writing.execute(
        SQL["renew_worker"], (request.worker, _lease_until(writing, request.lease_seconds))
    )
    if renewed.rowcount != 1:
        return None
    return frozenset(_claims(writing, request.worker))


def remove_worker(writing: UnitOfWork, request: RemoveWorker) -> int:
    """Forget a worker that leaves, and give back what it held."""
    return _give_back_all(writing, request.worker, micros(request.now), losses=0)


def recover(writing: UnitOfWork, request: Recover) -> int:
    """Release what dead workers held: attempts that were lost."""
    now = micros(writing.now)
    expired_at = None if request.expired_at is None else micros(request.expired_at)
    dead = {row[0] for row in writing.execute(SQL["dead_workers"], (expired_at,))} | set(request.dead)
    return sum(_give_back_all(writing, worker, now, losses=1) for worker in sorted(dead))


def restart_delays(writing: UnitOfWork, request: RestartDelays) -> Sequence[TaskId]:
    """Begin the delays of retries anew that began in the future, and shorten leases."""
    now = micros(writing.now)
    if request.lease_seconds is not None:
        writing.execute(SQL["shorten_leases"], (_lease_until(writing, request.lease_seconds),))
    rows = writing.execute(SQL["restart_delays"], (now,)).fetchall()
    for task_id, tree, user_id, attempt, ready_at in rows:
        claim = Claim(task_id, attempt, "", tree, user_id)
        facts = {"at": moment(ready_at).isoformat(), "reason": CLOCK_PUT_BACK}
        writing.tell(claim, EventType.TASK_RETRIED, now, facts)
    return [row[0] for row in rows]


def _lease_until(writing: UnitOfWork, lease_seconds: float) -> int:
    return micros(writing.now + timedelta(seconds=lease_seconds))


def _give_back_all(writing: UnitOfWork, worker: str, now: int, *, losses: int) -> int:
    held = _claims(writing, worker)
    for claim in held:
        writing.tell(claim, EventType.TASK_GIVEN_BACK, now, claim_facts(claim))
    writing.execute(SQL["give_back_all"], (worker, now, losses))
    writing.execute(SQL["remove_worker"], (worker,))
    return len(held)


def _claims(writing: UnitOfWork, worker: str) -> list[Claim]:
    """What a worker holds."""
    rows = writing.execute(SQL["tasks_of_worker"], (worker,))
    return [Claim(task_id, attempt, worker, tree, user_id) for task_id, tree, user_id, attempt in rows]
