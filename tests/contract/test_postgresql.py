"""What the PostgreSQL store does beyond the common contract: its server, its schema, its lock."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.batches import batched
from tests.builders import NOON, a_flow, completed, numbered_ids
from tests.contract.test_store import start, submit
from tests.faults.proxy import proxy_to
from tests.postgresql_server import fresh_schema
from weft.app.wiring import open_store
from weft.config.settings import Settings
from weft.errors import MissingExtra, WeftError
from weft.ids import TaskId
from weft.store.errors import (
    NotAStore,
    SchemaTooNew,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from weft.store.postgresql.connection import Timeouts, translated
from weft.store.postgresql.store import PostgresqlStore
from weft.store.protocol import EVERYONE, ClaimRequest, ClaimResult, EventFilter, Owner, TaskFilter
from weft.store.sql import load_queries
from weft.tasks.events import Event
from weft.tasks.flow import Flow
from weft.tasks.operations import ArchiveTasks
from weft.tasks.states import Completed


@pytest.fixture
def url(postgresql: str) -> str:
    return fresh_schema(postgresql)


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresqlStore]:
    opened = await PostgresqlStore.open(url)
    yield opened
    await opened.close()


@pytest.fixture
async def admin(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Yield a connection that is not one of the store's."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


async def terminate(admin: asyncpg.Connection, application: str) -> int:
    """End all connections of an application, and wait until they have ended."""
    ended = await admin.fetch(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = $1",
        application,
    )
    return len(ended)


async def waiting_for(holder: asyncpg.Connection, watcher: asyncpg.Connection) -> int:
    """How many connections wait for a lock that this one holds; other tests may use the server too."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND $1 = ANY (pg_blocking_pids(pid))"
    return int(await watcher.fetchval(waiting, holder.get_server_pid()))


# The server


@pytest.mark.parametrize("name", ["lock_timeout", "idle_in_transaction_session_timeout", "statement_timeout"])
async def test_the_server_ends_what_a_process_that_is_frozen_does_on_any_connection(
    store: PostgresqlStore, name: str
) -> None:
    await store.check()
    leases = store._leases._connection
    assert leases is not None
    async with store._readers.acquire() as reader:
        limits = [await one.fetchval(f"SHOW {name}") for one in (store._writer._connection, leases, reader)]

    assert "0" not in limits, limits


async def test_a_server_whose_machine_is_gone_is_noticed_on_any_connection(url: str) -> None:
    with proxy_to(url) as proxy:
        store = await PostgresqlStore.open(proxy.url)
        await store.check()
        leases = store._leases._connection
        assert leases is not None
        async with store._readers.acquire() as reader:
            connections: tuple[Any, ...] = (store._writer._connection, leases, reader)
            peers = [one._transport.get_extra_info("socket") for one in connections]
            limits = [peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) for peer in peers]
            are_kept = [peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) for peer in peers]
        await store.close()

    assert limits == [11_000] * 3
    assert are_kept == [1] * 3


async def test_a_connection_lost_while_idle_is_not_noticed(url: str, admin: asyncpg.Connection) -> None:
    store = await PostgresqlStore.open(f"{url}&application_name=idle")
    try:
        await submit(store, a_flow("before"))
        assert await terminate(admin, "idle") >= 1
        await submit(store, a_flow("after", prefix="b"))

        assert (await store.list(TaskFilter(), owner=EVERYONE)).total == 2
    finally:
        await store.close()


async def test_a_connection_lost_in_a_write_is_replaced_and_the_write_done_again(
    url: str, admin: asyncpg.Connection
) -> None:
    store = await PostgresqlStore.open(f"{url}&application_name=busy")
    try:
        root = (await submit(store, a_flow("root"))).root
        async with admin.transaction():
            # The row lock holds the write up, in its transaction, until its connection ends.
            await admin.execute("SELECT FROM tasks FOR UPDATE")
            writing = asyncio.ensure_future(start(store, root.id))
            other = await asyncpg.connect(url)
            while not await waiting_for(admin, other):
                pass
            assert await terminate(other, "busy") >= 1
            await other.close()
        assert (await writing).attempt == 1
    finally:
        await store.close()


async def test_a_store_whose_server_is_gone_can_still_be_closed(url: str, admin: asyncpg.Connection) -> None:
    store = await PostgresqlStore.open(f"{url}&application_name=closing")
    await terminate(admin, "closing")

    await store.close()

    with pytest.raises(StoreError):
        await store.list(TaskFilter(), owner=EVERYONE)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:s3cret@127.0.0.1:1/weft",
        "postgresql://ann:s3cret@weft.invalid/weft",
        "postgresql://ann:s3cret@host:s3cret/weft",
        "postgresql://ann:s3cret@[::1/weft",
        "postgresql://ann@127.0.0.1:1/weft?password=s3cret&sslmode=s3cret",
        "postgresql://ann:s3cret@127.0.0.1:1,s3cret:x/weft",
    ],
)
async def test_an_unreachable_server_is_named_without_the_password(url: str) -> None:
    with pytest.raises(StoreUnreachable) as caught:
        await open_store(Settings(db=url))

    assert "postgresql://" in str(caught.value)
    error: BaseException | None = caught.value
    while error is not None:
        assert "s3cret" not in str(error)
        error = error.__cause__


async def test_a_wrong_password_is_refused_and_not_shown() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int.from_bytes(await reader.readexactly(4))
        await reader.readexactly(length - 4)
        fields = b'SFATAL\0C28P01\0Mpassword authentication failed for user "ann"\0\0'
        writer.write(b"E" + (len(fields) + 4).to_bytes(4) + fields)
        writer.close()

    # Played by hand: the servers of tests let everyone in who can reach their socket.
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(StoreUnreachable, match="password authentication failed") as caught:
            await PostgresqlStore.open(f"postgresql://ann:s3cret@127.0.0.1:{port}/weft?sslmode=disable")

    assert "s3cret" not in str(caught.value)
    assert f"127.0.0.1:{port}/weft" in str(caught.value)


@batched(
    ("raised", "ours"),
    [
        (asyncpg.DiskFullError("no space"), StoreFull),
        (asyncpg.ReadOnlySQLTransactionError("standby"), StoreReadOnly),
        (asyncpg.InsufficientPrivilegeError("denied"), StoreReadOnly),
        (asyncpg.LockNotAvailableError("timeout"), StoreBusy),
        (asyncpg.SerializationError("conflict"), StoreBusy),
        (asyncpg.DeadlockDetectedError("deadlock"), StoreBusy),
        (asyncpg.TooManyConnectionsError("full"), StoreBusy),
        (asyncpg.AdminShutdownError("stopping"), StoreUnreachable),
        (asyncpg.CannotConnectNowError("starting"), StoreUnreachable),
        (asyncpg.ConnectionDoesNotExistError("lost"), StoreUnreachable),
        (asyncpg.InterfaceError("connection is closed"), StoreUnreachable),
        (ConnectionResetError("reset"), StoreUnreachable),
        (TimeoutError(), StoreUnreachable),
        (asyncpg.UndefinedTableError("gone"), NotAStore),
        (asyncpg.OutOfMemoryError("memory"), StoreError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
def test_the_servers_errors_become_ours(raised: Exception, ours: type[WeftError]) -> None:
    error = translated(raised, "postgresql://host/weft")

    assert type(error) is ours
    assert error.message.startswith("postgresql://host/weft: ")
    assert not error.message.endswith(": ")


async def test_an_unknown_database_is_unreachable(postgresql: str) -> None:
    parts = urlsplit(postgresql)

    with pytest.raises(StoreUnreachable, match="does not exist"):
        await PostgresqlStore.open(parts._replace(path="/nowhere").geturl())


async def test_an_unknown_schema_is_unreachable(postgresql: str) -> None:
    with pytest.raises(StoreUnreachable, match="schema"):
        await PostgresqlStore.open(f"{postgresql}{'&' if '?' in postgresql else '?'}search_path=nowhere")


async def test_a_store_that_may_only_be_read_opens_and_refuses_writes(
    store: PostgresqlStore, url: str
) -> None:
    flow = await submit(store, a_flow("root"))
    reader = await PostgresqlStore.open(f"{url}&default_transaction_read_only=on")
    try:
        assert await reader.get(flow.root.id, owner=EVERYONE) == flow.root
        with pytest.raises(StoreReadOnly):
            await start(reader, flow.root.id)
    finally:
        await reader.close()


async def test_without_the_driver_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("weft.store.postgresql.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "asyncpg", None)

    with pytest.raises(MissingExtra, match=r"pip install 'weft\[postgresql\]'"):
        await open_store(Settings(db="postgresql://host/weft"))


# The schema


async def test_stores_that_open_an_empty_schema_at_once_all_work(url: str) -> None:
    stores = await asyncio.gather(*(PostgresqlStore.open(url) for _ in range(8)))
    try:
        await asyncio.gather(
            *(submit(one, a_flow("t", prefix=prefix)) for one, prefix in zip(stores, "abcdef01", strict=True))
        )
        assert (await stores[0].describe()).tasks == 8
    finally:
        await asyncio.gather(*(one.close() for one in stores))


async def test_a_newer_schema_is_refused(store: PostgresqlStore, url: str, admin: asyncpg.Connection) -> None:
    await admin.execute("UPDATE weft_schema SET version = 999")

    with pytest.raises(SchemaTooNew, match="999"):
        await PostgresqlStore.open(url)


async def test_tables_of_another_program_are_refused_and_left_alone(
    url: str, admin: asyncpg.Connection
) -> None:
    await admin.execute("CREATE TABLE tasks (mine text)")

    with pytest.raises(NotAStore, match="tasks"):
        await PostgresqlStore.open(url)

    assert await admin.fetchval("SELECT to_regclass('weft_schema')") is None


async def test_archived_tasks_cannot_be_changed_behind_the_stores_back(
    store: PostgresqlStore, admin: asyncpg.Connection
) -> None:
    flow = await submit(store, completed(a_flow("root")))
    archive = ArchiveTasks(task_id=flow.root.id, new_id=numbered_ids("b"), now=NOON)
    archived = (await store.operate(archive, owner=EVERYONE)).root

    for statement in ("UPDATE tasks SET name = 'x' WHERE id = $1", "DELETE FROM tasks WHERE id = $1"):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="never change"):
            await admin.execute(statement, archived.id)
    await admin.execute("UPDATE tasks SET has_references = true WHERE id = $1", archived.id)
    await admin.execute("UPDATE tasks SET name = 'x' WHERE id = $1", flow.root.id)


async def test_events_cannot_be_changed_behind_the_stores_back(
    store: PostgresqlStore, admin: asyncpg.Connection
) -> None:
    await submit(store, a_flow("root"))

    for statement in ("UPDATE events SET facts = '{}'", "DELETE FROM events"):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="never change"):
            await admin.execute(statement)


async def test_a_filter_that_names_no_possible_task_finds_nothing(store: PostgresqlStore) -> None:
    await submit(store, a_flow("root"))
    nowhere = TaskId("not-an-id")

    assert (await store.list(TaskFilter(tree=nowhere), owner=EVERYONE)).total == 0
    assert (await store.list(TaskFilter(name="\ud800"), owner=EVERYONE)).total == 0
    assert (await store.list(TaskFilter(), owner=Owner("\ud800"))).total == 0
    assert await store.events(EventFilter(task=nowhere), owner=EVERYONE) == []


# The lock


async def test_a_reader_that_goes_on_from_the_last_event_misses_none(
    store: PostgresqlStore, url: str
) -> None:
    second = await PostgresqlStore.open(url)
    done = asyncio.Event()

    async def write(one: PostgresqlStore, prefix: str) -> None:
        flow = await submit(one, a_flow("root", *(f"t{number}" for number in range(150)), prefix=prefix))
        for task in flow:
            claim = await start(one, task.id)
            await one.finish(claim, Completed(NOON, {}))

    async def tail() -> list[Event]:
        seen: list[Event] = []
        while True:
            was_done = done.is_set()
            last = seen[-1].seq if seen else 0
            new = await store.events(EventFilter(after=last, limit=7), owner=EVERYONE)
            seen += new
            if was_done and not new:
                return seen

    reading = asyncio.ensure_future(tail())
    try:
        await asyncio.gather(*(write(one, prefix) for one, prefix in ((store, "a"), (second, "b"))))
    finally:
        done.set()
        seen = await reading
        await second.close()

    everything = await store.events(EventFilter(limit=10_000), owner=EVERYONE)
    assert len(everything) == 2 * (1 + 151 * 2)
    assert [event.seq for event in seen] == [event.seq for event in everything]


async def test_a_writer_waits_while_another_process_writes(
    store: PostgresqlStore, admin: asyncpg.Connection
) -> None:
    await admin.execute(load_queries("postgresql")["begin_write"])
    writing = asyncio.ensure_future(submit(store, a_flow("root")))
    while not await waiting_for(admin, admin):
        pass

    assert not writing.done()
    await admin.execute("COMMIT")
    assert isinstance(await writing, Flow)


async def test_a_writer_that_waits_too_long_says_the_store_is_busy(
    url: str, admin: asyncpg.Connection
) -> None:
    store = await PostgresqlStore.open(url, timeouts=Timeouts(lock_seconds=0.01, away_seconds=0.1))
    try:
        await admin.execute(load_queries("postgresql")["begin_write"])
        with pytest.raises(StoreBusy):
            await submit(store, a_flow("root"))
        await admin.execute("COMMIT")

        assert isinstance(await submit(store, a_flow("root")), Flow)
    finally:
        await store.close()


# The plans


def rows_read(plan: dict[str, Any]) -> int:
    """Return the most rows that any part of a plan has handled."""
    own = int(plan["Actual Rows"] * plan["Actual Loops"] + plan.get("Rows Removed by Filter", 0))
    return max([own, *map(rows_read, plan.get("Plans", []))])


@pytest.mark.parametrize("is_analyzed", [False, True])
async def test_a_claim_and_an_ending_read_no_more_of_a_large_flow_than_they_must(
    store: PostgresqlStore, admin: asyncpg.Connection, is_analyzed: bool
) -> None:
    first = [f"a{number}" for number in range(1500)]
    second = [{"name": f"b{number}", "dependencies": [f"a{number}"]} for number in range(1500)]
    flow = await submit(store, a_flow(*first, *second))
    if is_analyzed:
        tables = await admin.fetchval(
            "SELECT string_agg(tablename, ', ') FROM pg_tables WHERE schemaname = current_schema()"
        )
        await admin.execute(f"ANALYZE {tables}")  # those of other tests need not be
    root = flow.root.id
    await store.run_flow(root, owner=EVERYONE)
    await store.add_worker("w", lease_seconds=60)
    wanted = ClaimRequest(flows=[root], worker="w", slots=10)
    _, outlook = await store.advance([], wanted)
    assert isinstance(outlook, ClaimResult)
    ids = [claimed.task.id for claimed in outlook.claimed]
    guard = (ids, [1] * 10, ["w"] * 10, [None] * 10, [NOON] * 10)
    writer = store._writer._connection
    statements: dict[str, tuple[Any, ...]] = {
        "claim_tasks": ([root], "w", NOON, 10, ["slow"], [1], ["slow", ""]),
        "next_ready_at": ([root], "w", NOON),
        "end_flow": (root,),
        "finish_task": (*guard, ["completed"] * 10, ["{}"] * 10, [None] * 10, [1.0] * 10),
        "retry_task": (*guard, [NOON] * 10, ["no"] * 10),
        "release_task": guard,
        "report_progress": (*guard, [0.5] * 10),
        "release_dependents": (ids, [True] * 10),
        "delete_dependents_of": (ids,),
        "recount_waiting": (ids,),
        "recount_references": (ids,),
        "release_all": ("w", NOON, 1),
        "unknown_workers": (),
    }

    for name, arguments in statements.items():
        await writer.execute("BEGIN")
        text = await writer.fetchval(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {load_queries('postgresql')[name]}", *arguments
        )
        await writer.execute("ROLLBACK")
        (explained,) = json.loads(text)
        assert "Seq Scan" not in text, name
        assert rows_read(explained["Plan"]) <= 20, name
