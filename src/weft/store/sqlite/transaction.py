"""Write transactions: a group of requests, applied in order, each with its own outcome."""

import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from weft.clock import Clock
from weft.errors import WeftError
from weft.fault_points import STORE_APPLIED, STORE_BEGAN, STORE_COMMITTED, hit
from weft.store.errors import refusal_of
from weft.store.models import AddTemplates, RemoveTemplate, UpdateParams, WriteSteps
from weft.store.protocol import AttemptResult, ClaimRequest, Suspension
from weft.store.requests import (
    AddWorker,
    EndFlow,
    Operate,
    Recover,
    Release,
    RemoveWorker,
    RenewWorker,
    Report,
    Request,
    RestartDelays,
    RunFlow,
    Start,
)
from weft.store.sqlite.attempts import (
    add_worker,
    end,
    recover,
    release,
    remove_worker,
    renew_worker,
    report,
    restart_delays,
    start,
    suspend,
)
from weft.store.sqlite.claims import claim_ready, end_flow, run_flow
from weft.store.sqlite.operations import operate
from weft.store.sqlite.steps import write_steps
from weft.store.sqlite.templates import add_templates, remove_template, update_params
from weft.store.sqlite.unit_of_work import UnitOfWork

_APPLY: dict[type[Any], Callable[[UnitOfWork, Any], Any]] = {
    Start: start,
    Report: report,
    AttemptResult: end,
    Suspension: suspend,
    Release: release,
    ClaimRequest: claim_ready,
    RunFlow: run_flow,
    EndFlow: end_flow,
    AddWorker: add_worker,
    RenewWorker: renew_worker,
    RemoveWorker: remove_worker,
    Recover: recover,
    RestartDelays: restart_delays,
    Operate: operate,
    WriteSteps: write_steps,
    AddTemplates: add_templates,
    RemoveTemplate: remove_template,
    UpdateParams: update_params,
}


_REQUEST_ERRORS = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
"""Errors caused by one request: a violated constraint, or a value that SQLite cannot store."""


def commit_group(connection: sqlite3.Connection, requests: Sequence[Request], clock: Clock) -> list[Any]:
    """Commit the requests together, and return the value or error of each. Raise if nothing is committed."""
    try:
        return _commit(connection, requests, clock, _apply_together)
    except Exception as error:
        if not _is_of_one_request(error):
            raise
    # Start again with savepoints: the failed request may be half written, and must not fail the others.
    return _commit(connection, requests, clock, _apply_apart)


def _commit(
    connection: sqlite3.Connection,
    requests: Sequence[Request],
    clock: Clock,
    apply: Callable[[sqlite3.Connection, Sequence[Request], datetime], list[Any]],
) -> list[Any]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        hit(STORE_BEGAN)
        outcomes = apply(connection, requests, clock.now())
        hit(STORE_APPLIED)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    hit(STORE_COMMITTED)
    return outcomes


def _apply_together(connection: sqlite3.Connection, requests: Sequence[Request], now: datetime) -> list[Any]:
    unit = UnitOfWork(connection, now)
    outcomes = [_apply(unit, request) for request in requests]
    unit.insert_steps()
    unit.release_dependents()
    unit.write_events()
    return outcomes


def _apply_apart(connection: sqlite3.Connection, requests: Sequence[Request], now: datetime) -> list[Any]:
    """Apply each request in its own savepoint: slower, but a failed request leaves no trace."""
    outcomes: list[Any] = []
    for request in requests:
        connection.execute("SAVEPOINT request")
        try:
            outcomes += _apply_together(connection, [request], now)
        except Exception as error:
            if not _is_of_one_request(error):
                raise
            connection.execute("ROLLBACK TO request")
            outcomes.append(_refusal(error))
        connection.execute("RELEASE request")
    return outcomes


def _apply(unit: UnitOfWork, request: Request) -> Any:
    """Return the value of a request, or its own error if it wrote nothing."""
    kind = type(request)
    if kind is not WriteSteps:
        unit.insert_steps()
        unit.held.clear()
        if kind is not AttemptResult:
            unit.release_dependents()
    try:
        return _APPLY[kind](unit, request)
    except WeftError as error:
        return error
    except Exception as error:
        # Only an operation has its own savepoint, because its input comes from users.
        if kind is not Operate or not _is_of_one_request(error):
            raise
        return _refusal(error)


def _is_of_one_request(error: Exception) -> bool:
    """Return whether the error concerns only its request, and not the file or the connection."""
    return not isinstance(error, sqlite3.Error) or isinstance(error, _REQUEST_ERRORS)


def _refusal(error: Exception) -> WeftError:
    return refusal_of(error, reason=str(error), is_of_driver=isinstance(error, sqlite3.Error))
