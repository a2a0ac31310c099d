"""One write transaction: a group of requests, applied in order, each with its own outcome."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from weft.errors import WeftError
from weft.faults import STORE_APPLIED, STORE_BEGAN, STORE_COMMITTED, reach
from weft.store.errors import StoreError
from weft.store.protocol import Ending, Wanted
from weft.store.requests import (
    AddWorker,
    EndFlow,
    GiveBack,
    Operate,
    Recover,
    RemoveWorker,
    RenewWorker,
    Report,
    Request,
    RunFlow,
    Start,
)
from weft.store.sqlite.attempts import end, give_back, report, start
from weft.store.sqlite.claims import claim_ready, end_flow, run_flow
from weft.store.sqlite.operations import operate
from weft.store.sqlite.workers import add_worker, recover, remove_worker, renew_worker
from weft.store.sqlite.writing import Writing

_APPLY: dict[type[Any], Callable[[Writing, Any], Any]] = {
    Start: start,
    Report: report,
    Ending: end,
    GiveBack: give_back,
    Wanted: claim_ready,
    RunFlow: run_flow,
    EndFlow: end_flow,
    AddWorker: add_worker,
    RenewWorker: renew_worker,
    RemoveWorker: remove_worker,
    Recover: recover,
    Operate: operate,
}


_OF_ONE_REQUEST = (
    OverflowError,
    TypeError,
    ValueError,
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
"""What a value that SQLite cannot hold, or a broken constraint, is told with: the fault of one request."""


def commit_group(connection: sqlite3.Connection, requests: Sequence[Request]) -> list[Any]:
    """The value or error of each request, all committed together; raises when nothing could be committed."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        reach(STORE_BEGAN)
        writing = Writing(connection)
        outcomes = [_apply(writing, request) for request in requests]
        writing.release_dependents()
        writing.write_events()
        reach(STORE_APPLIED)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    reach(STORE_COMMITTED)
    return outcomes


def _apply(writing: Writing, request: Request) -> Any:
    """The request's value, or the error that it alone ends with."""
    kind = type(request)
    if kind is not Ending:
        writing.release_dependents()
    try:
        return _APPLY[kind](writing, request)
    except WeftError as error:
        return error
    except _OF_ONE_REQUEST as error:
        return StoreError(f"the store refuses it: {error}")
