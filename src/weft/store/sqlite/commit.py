"""Write transactions: a group of requests, applied in order, each with its own outcome."""

import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from weft.clock import Clock
from weft.errors import WeftError
from weft.fault_points import STORE_APPLIED, STORE_BEGAN, STORE_COMMITTED, hit
from weft.store.errors import refusal_of
from weft.store.sqlite.claims import claim_ready
from weft.store.sqlite.operations import operate
from weft.store.sqlite.transaction import Transaction
from weft.store.steps import write_steps
from weft.store.unit_of_work import Operate, Request, Write, WriteSteps

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
    transaction = Transaction(connection, now)
    outcomes: list[Any] = []
    for run, same in groupby(requests, _run_of):
        together = list(same)
        if run is None:
            outcomes += [_apply(transaction, request) for request in together]
        else:
            outcomes += _apply_steps(transaction, together)
    transaction.release_dependents()
    transaction.write_events()
    return outcomes


def _run_of(request: Any) -> Any:
    """Return the run of a request to write steps; None for all others."""
    return request.run if type(request) is WriteSteps else None


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


def _apply_steps(transaction: Transaction, requests: Sequence[Any]) -> Sequence[Any]:
    try:
        return transaction.perform(write_steps(transaction.unit, requests))
    except WeftError as error:
        return [error] * len(requests)


def _apply(transaction: Transaction, request: Any) -> Any:
    """Return the value of a request, or its own error if it wrote nothing."""
    kind = type(request)
    try:
        if kind is Write:
            if request.task_id is None:
                transaction.release_dependents()
            return transaction.perform(request.begin(transaction.unit))
        transaction.release_dependents()
        return operate(transaction, request) if kind is Operate else claim_ready(transaction, request)
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
