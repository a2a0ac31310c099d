"""Attempts, workers and leases in SQLite: an attempt is written only while its claim is held."""

import json
from collections.abc import Sequence
from datetime import timedelta

from weft.ids import TaskId
from weft.store.columns import CLOCK_PUT_BACK, claim_facts, ending, json_text, refusal, suspended_dependencies
from weft.store.protocol import AttemptResult, Claim, Suspension
from weft.store.requests import (
    AddWorker,
    Recover,
    Release,
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
_RETRY, _RELEASE = SQL["retry_task"], SQL["release_task"]


def start(unit: UnitOfWork, request: Start) -> Claim:
    now, owner = micros(request.now), request.owner
    row = unit.execute(
        _START, (now, request.worker, request.task_id, owner.is_everyone, owner.user_id)
    ).fetchone()
    if row is None:
        raise refusal(request, read_task(unit, request.task_id, owner))
    claim = Claim(request.task_id, row[0], request.worker, row[1], row[2])
    unit.add_event(claim, EventType.TASK_STARTED, now, claim_facts(claim))
    return claim


def report(unit: UnitOfWork, request: Report) -> bool:
    claim, now = request.claim, micros(request.now)
    progress = fraction(request.progress)
    is_held = unit.execute(_REPORT, (progress, now, *_claim_values(claim))).rowcount == 1
    if is_held:
        unit.add_event(claim, EventType.TASK_PROGRESSED, now, {"progress": progress})
    return is_held


def end(unit: UnitOfWork, request: AttemptResult) -> bool:
    """End an attempt, either finally or until its retry. Return whether the claim was held."""
    claim, at = request.claim, micros(request.outcome.at)
    retry_at = None if request.retry_after is None else unit.now + request.retry_after
    columns, events = ending(request, retry_at)
    if retry_at is not None:
        began_at = micros(unit.now)
        done = unit.execute(_RETRY, (columns[2], micros(retry_at), began_at, *_claim_values(claim)))
        is_held = done.rowcount == 1
    else:
        row = unit.execute(_FINISH, (*columns, at, *_claim_values(claim))).fetchone()
        is_held = row is not None
        if is_held:
            unit.ended[columns[0] == "completed"].append(row[0])
            if row[1]:
                end_open_steps(unit, claim.task_id, at)
    if is_held:
        for kind, facts in events:
            unit.add_event(claim, kind, at, facts)
    return is_held


def suspend(unit: UnitOfWork, request: Suspension) -> bool:
    """Suspend a task until one of `request.until` ends. Return whether the claim was held."""
    claim, at, task_id = request.claim, micros(request.at), request.claim.task_id
    wake_at = None if request.wake_at is None else micros(request.wake_at)
    if unit.execute(SQL["suspend_task"], (at, wake_at, *_claim_values(claim))).rowcount != 1:
        return False
    row = unit.execute(SQL["has_ended"], (json_text(request.until),)).fetchone()
    dependencies = suspended_dependencies(request, has_ended=bool(row[0]))
    unit.execute(SQL["delete_dependents_of"], (task_id,))
    unit.execute(SQL["set_dependencies"], (json_text(dependencies), task_id))
    unit.executemany(
        SQL["insert_dependent"],
        [(dependency.id, task_id, dependency.required) for dependency in dependencies],
    )
    unit.execute(SQL["recount_waiting"], (task_id,))
    unit.add_event(claim, EventType.TASK_SUSPENDED, at, {**claim_facts(claim), "until": request.until})
    return True


def release(unit: UnitOfWork, request: Release) -> bool:
    """Release a claimed task. Return whether the claim was held."""
    claim, now = request.claim, micros(request.now)
    is_held = unit.execute(_RELEASE, (now, *_claim_values(claim))).rowcount == 1
    if is_held:
        unit.add_event(claim, EventType.TASK_RELEASED, now, claim_facts(claim))
    return is_held


def _claim_values(claim: Claim) -> tuple[object, ...]:
    return claim.task_id, claim.attempt, claim.worker, claim.user_id


def add_worker(unit: UnitOfWork, request: AddWorker) -> None:
    methods = None if request.methods is None else json.dumps(request.methods)
    unit.execute(SQL["add_worker"], (request.worker, _lease_until(unit, request.lease_seconds), methods))


def renew_worker(unit: UnitOfWork, request: RenewWorker) -> frozenset[Claim] | None:
    """Renew a worker's lease. Return the claims it holds, or None if it was declared dead."""
    renewed = unit.execute(SQL["renew_worker"], (request.worker, _lease_until(unit, request.lease_seconds)))
    if renewed.rowcount != 1:
        return None
    return frozenset(_claims(unit, request.worker))


def remove_worker(unit: UnitOfWork, request: RemoveWorker) -> int:
    """Remove a worker that shuts down, and release its tasks. Return how many were released."""
    return _release_all(unit, request.worker, micros(request.now), losses=0)


def recover(unit: UnitOfWork, request: Recover) -> int:
    """Release the tasks of dead workers as lost attempts. Return how many were released."""
    now = micros(unit.now)
    expired_at = None if request.expired_at is None else micros(request.expired_at)
    dead = {row[0] for row in unit.execute(SQL["dead_workers"], (expired_at,))} | set(request.dead)
    return sum(_release_all(unit, worker, now, losses=1) for worker in sorted(dead))


def restart_delays(unit: UnitOfWork, request: RestartDelays) -> Sequence[TaskId]:
    """Restart retry delays that began in the future; shorten leases if `lease_seconds` is given."""
    now = micros(unit.now)
    if request.lease_seconds is not None:
        unit.execute(SQL["shorten_leases"], (_lease_until(unit, request.lease_seconds),))
    rows = unit.execute(SQL["restart_delays"], (now,)).fetchall()
    for task_id, tree, user_id, attempt, ready_at in rows:
        claim = Claim(task_id, attempt, "", tree, user_id)
        facts = {"at": moment(ready_at).isoformat(), "reason": CLOCK_PUT_BACK}
        unit.add_event(claim, EventType.TASK_RETRIED, now, facts)
    return [row[0] for row in rows]


def _lease_until(unit: UnitOfWork, lease_seconds: float) -> int:
    return micros(unit.now + timedelta(seconds=lease_seconds))


def _release_all(unit: UnitOfWork, worker: str, now: int, *, losses: int) -> int:
    held = _claims(unit, worker)
    for claim in held:
        unit.add_event(claim, EventType.TASK_RELEASED, now, claim_facts(claim))
    unit.execute(SQL["release_all"], (worker, now, losses))
    unit.execute(SQL["remove_worker"], (worker,))
    return len(held)


def _claims(unit: UnitOfWork, worker: str) -> list[Claim]:
    rows = unit.execute(SQL["tasks_of_worker"], (worker,))
    return [Claim(task_id, attempt, worker, tree, user_id) for task_id, tree, user_id, attempt in rows]
