"""Connections to a PostgreSQL server: settings, and its errors in our words."""

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
"""How long to wait for the server to confirm the end of a connection; nothing depends on it."""

READERS = 4
"""Enough that a long listing does not hold up a short look-up."""


class Timeouts(Struct, frozen=True, kw_only=True):
    """How long a server, or another process that holds its write lock, is waited for."""

    connect_seconds: float = 5.0
    """A server that is there answers in milliseconds, one on another continent in a second."""
    lock_seconds: float = 10.0
    """For another process's write: its transactions take milliseconds, a large submission a minute. Who
    waited in vain tries again."""
    idle_seconds: float = 4.0
    """When the server ends a transaction whose process does nothing: it is frozen, or cut off."""
    command_seconds: float = 30.0
    """For the server's answer to a statement."""
    large_seconds: float = 900.0
    """The same for operations on whole flows: longer than storing a million tasks takes."""
    away_seconds: float = AWAY_SECONDS
    """How long calls are tried again when the server is away."""


LARGE_FLOW = 20_000
"""Tasks of a flow from which on an operation may compute for seconds while its transaction is open."""

LARGE_IDLE = "15min"

_KEEPALIVES = {
    # The server notices a client that is gone, whatever the network between them says: after 11 s.
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "11000",
}
_WRITER_SETTINGS = {
    **_KEEPALIVES,
    # Every statement of a write finds its rows in an index, whatever the statistics say: in a store that has
    # just been filled they are of when it was empty, and a plan made by them could read all tasks every time.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_sort": "off",
    "jit": "off",
    # So each has one good plan, which need be made only once: planning takes longer than most of them.
    "plan_cache_mode": "force_generic_plan",
}
_READER_SETTINGS = {
    **_KEEPALIVES,
    "default_transaction_read_only": "on",
    # A filter that is not given must not cost the plan its index, as it does in a plan made for all values.
    "plan_cache_mode": "force_custom_plan",
}

_BY_CODE: dict[str, type[WeftError]] = {
    "25P03": StoreUnreachable,  # the server ended a transaction that was idle
    "25006": StoreReadOnly,  # read-only transaction, or a standby server
    "3D000": StoreUnreachable,  # no such database
    "3F000": StoreUnreachable,  # no such schema
    "40001": StoreBusy,  # serialization failure
    "40P01": StoreBusy,  # deadlock, with somebody who does not take our lock
    "42501": StoreReadOnly,  # no privilege
    "42P01": NotAStore,  # a table of ours is gone
    "42703": NotAStore,  # a column of ours is gone
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
# Bad values and broken constraints: the fault of one request; everything else concerns the whole server.
_CLASSES_OF_ONE_REQUEST = {"22", "23"}

LOST: tuple[type[Exception], ...] = (
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleInTransactionSessionTimeoutError,  # this process was frozen inside a transaction
    asyncpg.IdleSessionTimeoutError,
    asyncpg.InternalClientError,  # the server's farewell came while a statement was on its way
    OSError,
)
"""What the driver raises when the connection is gone. Time-outs are OSErrors too."""

_TRANSLATED: tuple[type[Exception], ...] = (asyncpg.PostgresError, *LOST)


@contextmanager
def translated_errors(location: str) -> Iterator[None]:
    """Turn the server's and the driver's errors into ours, with the place they are about."""
    try:
        yield
    except _TRANSLATED as error:
        raise translated(error, location) from error


def translated(error: Exception, location: str) -> WeftError:
    """Our error for one of PostgreSQL's."""
    family: type[WeftError] = StoreError
    if isinstance(error, asyncpg.PostgresError):
        code = error.sqlstate or ""
        family = _BY_CODE.get(code) or _BY_CLASS.get(code[:2]) or StoreError
    elif isinstance(error, LOST):
        family = StoreUnreachable
    return family(f"{location}: {reason(error)}")


def reason(error: Exception) -> str:
    """The first line of the error: the details behind it may show values of somebody else's rows."""
    return str(error).partition("\n")[0] or type(error).__name__


def is_of_one_request(error: Exception) -> bool:
    """Whether others may go on without the request: the error is not of the server or the connection."""
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "")[:2] in _CLASSES_OF_ONE_REQUEST
    # What the driver cannot encode is a ValueError, too.
    return isinstance(error, ValueError) or not isinstance(error, LOST)


def refusal(error: Exception) -> WeftError:
    """The outcome of a request that alone ends with the error."""
    is_of_driver = isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError)
    return refusal_of(error, reason=reason(error), is_of_driver=is_of_driver)


PLANNED = "a planned fault"


async def begin_call(*, is_write: bool) -> StoreFault | None:
    """Have the fault that is planned for a call of the server, inside the time limit of the call.

    Returns one that is for the caller to act out.
    """
    if store_faults.plan is None:
        return None
    fault = store_faults.plan.next_fault(is_write=is_write)
    if fault is StoreFault.FAIL:
        raise ConnectionResetError(PLANNED)
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
    _watch_peer(connection)
    return connection


def pool_of_readers(url: str, timeouts: Timeouts) -> asyncpg.Pool:
    """A pool, not open yet, of connections that only read.

    The server ends what a frozen process reads, too: its snapshot keeps old rows from being cleared away, and
    its locks keep a newer weft from migrating.
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
        init=_init_reader,
        reset=_keep,
    )


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"


async def allow_idle(connection: asyncpg.Connection) -> None:
    """Let the rest of a transaction be idle for long: a decision on a very large flow takes a while."""
    await connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{LARGE_IDLE}'")


async def _init_reader(connection: asyncpg.Connection) -> None:
    _watch_peer(connection)


def _watch_peer(connection: asyncpg.Connection) -> None:
    """Let the system end the connection when the server's machine does not answer any more.

    The driver has no setting for it, so its socket is asked for; one that cannot be had (a test's fake, TLS
    of a later driver) is left to the timeouts of commands.
    """
    transport = getattr(connection, "_transport", None)
    peer = None if transport is None else transport.get_extra_info("socket")
    if peer is None or peer.family == socket.AF_UNIX:
        return
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PEER_OPTIONS.items():
        option = getattr(socket, name, None)  # not every system has all of them
        if option is not None:
            peer.setsockopt(socket.IPPROTO_TCP, option, value)


_PEER_OPTIONS = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 11_000}
"""The same as the server's: 11 s without an answer end a connection."""


async def _keep(_connection: asyncpg.Connection) -> None:
    """Leave a connection as it is: reading changes nothing in its session, and a reset is a round trip."""


@contextmanager
def _url_errors(url: str) -> Iterator[None]:
    """Say that a URL cannot be read, without repeating it: the part that is wrong may hold the password."""
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
    # Raised out here so that the driver's own words, which may hold the password, do not come along.
    raise StoreUnreachable(message)
