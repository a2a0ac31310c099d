"""Connections to a PostgreSQL server: settings, and translation of its errors."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from msgspec import Struct

from weft.config.settings import shown_location
from weft.errors import WeftError
from weft.fault_points import StoreFault, hang, store_faults
from weft.store.errors import (
    NotAStore,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
    refusal_of,
)
from weft.store.tolerance import AWAY_SECONDS

CLOSE_TIMEOUT_SECONDS = 0.5
"""How long to wait for the server to confirm that a connection is closed; nothing depends on it."""

READERS = 4
"""Enough that a long listing does not delay a short lookup."""


class Timeouts(Struct, frozen=True, kw_only=True):
    """How long to wait for the server, or for another process that holds the write lock."""

    connect_seconds: float = 5.0
    """An available server responds in milliseconds, one on another continent in a second."""
    lock_seconds: float = 10.0
    """For a write of another process to end: it takes milliseconds, or a minute for a large submission. A
    writer that times out tries again."""
    idle_seconds: float = 4.0
    """After which the server aborts an idle transaction: its process is frozen or disconnected."""
    command_seconds: float = 30.0
    """For the server's response to a statement."""
    large_seconds: float = 900.0
    """For operations on whole flows: longer than storing a million tasks takes."""
    away_seconds: float = AWAY_SECONDS
    """How long calls are retried while the server is unavailable."""


LARGE_FLOW = 20_000
"""Number of tasks above which an operation may compute for seconds while its transaction is open."""

LARGE_IDLE = "15min"
"""Time after which the server aborts such an idle transaction."""

_KEEPALIVES = {
    # The server notices after 11 s that a client is gone, even if the network does not report it.
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "11000",
}
_WRITER_SETTINGS = {
    **_KEEPALIVES,
    # Every statement of a write must use an index, whatever the statistics say: right after a store is filled
    # they still describe an empty one, and a plan based on them could read all tasks every time.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_sort": "off",
    "jit": "off",
    # So each statement has one good plan, made only once: planning takes longer than most statements.
    "plan_cache_mode": "force_generic_plan",
}
_READER_SETTINGS = {
    **_KEEPALIVES,
    "default_transaction_read_only": "on",
    # A generic plan would not use the index of a filter that is optional in the statement.
    "plan_cache_mode": "force_custom_plan",
}

_BY_CODE: dict[str, type[WeftError]] = {
    "25P03": StoreUnreachable,  # the server aborted an idle transaction
    "25006": StoreReadOnly,  # read-only transaction, or a standby server
    "3D000": StoreUnreachable,  # no such database
    "3F000": StoreUnreachable,  # no such schema
    "40001": StoreBusy,  # serialization failure
    "40P01": StoreBusy,  # deadlock with a process that does not take weft's lock
    "42501": StoreReadOnly,  # no privilege
    "42P01": NotAStore,  # a table of weft is missing
    "42703": NotAStore,  # a column of weft is missing
    "53100": StoreFull,  # disk full
    "53300": StoreBusy,  # too many connections
    "55P03": StoreBusy,  # lock timeout
    "57014": StoreBusy,  # statement timeout, or cancelled by an operator
}
_BY_CLASS: dict[str, type[WeftError]] = {
    "08": StoreUnreachable,  # connection lost
    "28": StoreUnreachable,  # wrong password, or this user may not connect
    "57": StoreUnreachable,  # the server is stopping or starting
}
# Bad values and violated constraints are caused by one request; other errors concern the whole server.
_CLASSES_OF_ONE_REQUEST = {"22", "23"}

LOST: tuple[type[Exception], ...] = (
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleInTransactionSessionTimeoutError,  # this process was frozen inside a transaction
    asyncpg.IdleSessionTimeoutError,
    asyncpg.InternalClientError,  # the server closed the connection while a statement was being sent
    OSError,
)
"""Errors of the driver for a lost connection. Timeouts are OSErrors too."""

_TRANSLATED: tuple[type[Exception], ...] = (asyncpg.PostgresError, *LOST)


@contextmanager
def translated_errors(location: str) -> Iterator[None]:
    """Translate errors of the server and the driver into weft's, with the location of the store."""
    try:
        yield
    except _TRANSLATED as error:
        raise translated(error, location) from error


def translated(error: Exception, location: str) -> WeftError:
    """Return the weft error for an error of PostgreSQL."""
    family: type[WeftError] = StoreError
    if isinstance(error, asyncpg.PostgresError):
        code = error.sqlstate or ""
        family = _BY_CODE.get(code) or _BY_CLASS.get(code[:2]) or StoreError
    elif isinstance(error, LOST):
        family = StoreUnreachable
    return family(f"{location}: {reason(error)}")


def reason(error: Exception) -> str:
    """Return the first line of the error: its details may show values of another owner's rows."""
    return str(error).partition("\n")[0] or type(error).__name__


def is_of_one_request(error: Exception) -> bool:
    """Return whether the error concerns only its request, and not the server or the connection."""
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "")[:2] in _CLASSES_OF_ONE_REQUEST
    # A value that the driver cannot encode raises ValueError, too.
    return isinstance(error, ValueError) or not isinstance(error, LOST)


def refusal(error: Exception) -> WeftError:
    """Return the outcome of a request that failed by itself with the error."""
    is_of_driver = isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError)
    return refusal_of(error, reason=reason(error), is_of_driver=is_of_driver)


INJECTED_FAULT = "an injected fault"


async def begin_call(*, is_write: bool) -> StoreFault | None:
    """Inject the fault that a test planned for the next call, within the call's time limit.

    Return a fault that the caller itself must simulate, or None.
    """
    if store_faults.plan is None:
        return None
    fault = store_faults.plan.next_fault(is_write=is_write)
    if fault is StoreFault.FAIL:
        raise ConnectionResetError(INJECTED_FAULT)
    if fault is StoreFault.HANG:
        await hang()
    return fault


async def connect_writer(url: str, timeouts: Timeouts) -> asyncpg.Connection:
    """Open a connection for writing."""
    limits = {
        "lock_timeout": _milliseconds(timeouts.lock_seconds),
        "idle_in_transaction_session_timeout": _milliseconds(timeouts.idle_seconds),
        "statement_timeout": _milliseconds(timeouts.large_seconds),
    }
    with translated_errors(shown_location(url)), _url_errors(url):
        connection = await asyncpg.connect(
            url,
            timeout=timeouts.connect_seconds,
            command_timeout=timeouts.large_seconds,
            server_settings={**_WRITER_SETTINGS, **limits},
        )
    await _enable_keepalive(connection)
    return connection


def pool_of_readers(url: str, timeouts: Timeouts) -> asyncpg.Pool:
    """Create an unopened pool of read-only connections.

    The time limits also end reads of a frozen process: its snapshot keeps old rows from being vacuumed,
    and its locks keep a newer weft from migrating.
    """
    limit = _milliseconds(timeouts.command_seconds)
    names = ("lock_timeout", "idle_in_transaction_session_timeout", "statement_timeout")
    return asyncpg.create_pool(
        url,
        min_size=0,
        max_size=READERS,
        timeout=timeouts.connect_seconds,
        command_timeout=timeouts.command_seconds,
        server_settings={**_READER_SETTINGS, **dict.fromkeys(names, limit)},
        init=_enable_keepalive,
        reset=_skip_reset,
    )


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"


async def allow_idle(connection: asyncpg.Connection) -> None:
    """Allow the current transaction to be idle for long: a decision on a very large flow takes a while."""
    await connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{LARGE_IDLE}'")


async def _enable_keepalive(connection: asyncpg.Connection) -> None:
    """Let the operating system close the connection when the server's machine stops responding.

    The driver has no setting for this, so it is set on the socket. If the socket is not accessible (a
    fake in a test, TLS of a later driver), only the command timeouts apply.
    """
    transport = getattr(connection, "_transport", None)
    peer = None if transport is None else transport.get_extra_info("socket")
    if peer is None or peer.family == socket.AF_UNIX:
        return
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PEER_OPTIONS.items():
        option = getattr(socket, name, None)  # not every system has all options
        if option is not None:
            peer.setsockopt(socket.IPPROTO_TCP, option, value)


_PEER_OPTIONS = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 11_000}
"""The same as the server's: a connection is closed after 11 s without a response."""


async def _skip_reset(_connection: asyncpg.Connection) -> None:
    """Do not reset a connection: reads do not change its session, and a reset is a round trip."""


@contextmanager
def _url_errors(url: str) -> Iterator[None]:
    """Raise StoreUnreachable for an invalid URL without quoting it, since it may hold the password."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, OSError | asyncpg.PostgresError):
            raise
        form = "postgresql://user:password@host:port/database?search_path=schema"
        message = (
            f"{shown_location(url)}: not a usable PostgreSQL URL ({type(error).__name__}); its form is {form}"
        )
    else:
        return
    # Raised outside the handler, so that the driver's message, which may hold the password, is not chained.
    raise StoreUnreachable(message)
