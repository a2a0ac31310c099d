"""Processes that are frozen or cut off from their store: others can write, and they end when told to."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import asyncpg
import pytest

from tests.builders import a_flow
from tests.command_line import Process, catches_sigterm, wait_for, weft
from tests.contract.test_store import submit
from tests.faults.held_writes import hold_up_writes, until_it_waits_for
from tests.faults.processes import a_traced_task, freeze, traces, weft_process
from tests.faults.proxy import Proxy, proxy_to
from tests.model_server import Exchange, ModelServer, hangs, says, write_settings
from weft.app.wiring import open_store
from weft.config.settings import Settings
from weft.errors import TransientError
from weft.store.protocol import TaskStore

OTHERS_WRITE_SECONDS = 6.0
EXIT_SECONDS = 12.0


@pytest.fixture
async def other(direct_url: str) -> AsyncIterator[TaskStore]:
    """Yield the same store as another process sees it."""
    opened = await open_store(Settings(db=direct_url))
    yield opened
    await asyncio.wait_for(opened.close(), 60)


async def write_seconds(other: TaskStore) -> float:
    """How long a write takes that is held up, up to three times what it may take."""
    began = time.monotonic()
    writing = asyncio.ensure_future(submit(other, a_flow("another", prefix="b")))
    await asyncio.wait([writing], timeout=3 * OTHERS_WRITE_SECONDS)
    writing.cancel()
    return time.monotonic() - began


async def test_others_write_within_six_seconds_of_a_process_frozen_in_its_transaction(
    direct_url: str, other: TaskStore, admin: asyncpg.Connection, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    document = json.dumps([a_traced_task("root", trace)])
    submitted = await asyncio.to_thread(weft, "flow", "submit", "-", "--json", db=direct_url, stdin=document)
    await hold_up_writes(admin)
    with weft_process("flow", "run", submitted.json["root_id"], db=direct_url) as process:
        await until_it_waits_for(admin, direct_url)
        freeze(process)
        await admin.execute("ROLLBACK")
        took = await write_seconds(other)
        process.send_signal(signal.SIGCONT)
        _, err = await asyncio.to_thread(process.communicate, timeout=60)

    assert took < OTHERS_WRITE_SECONDS
    assert process.returncode == 0, err
    assert [name for name, _ in traces(trace)] == ["root"]


async def test_others_write_within_six_seconds_of_a_writer_cut_off_in_its_transaction(
    direct_url: str, other: TaskStore, proxy: Proxy, admin: asyncpg.Connection
) -> None:
    cut_off = await open_store(Settings(db=proxy.url))
    await hold_up_writes(admin)
    writing = asyncio.ensure_future(submit(cut_off, a_flow("cut off")))
    await until_it_waits_for(admin, direct_url)
    proxy.blackhole()
    await admin.execute("ROLLBACK")
    took = await write_seconds(other)
    proxy.heal()
    with suppress(TransientError):
        await asyncio.wait_for(writing, 30)
    await cut_off.close()

    assert took < OTHERS_WRITE_SECONDS
    assert await admin.fetchval("SELECT count(*) FROM tasks WHERE name = 'cut off'") <= 1


# SIGTERM while the store cannot be reached


@pytest.fixture
def proxies(direct_url: str) -> Iterator[tuple[Proxy, Proxy, Proxy]]:
    with proxy_to(direct_url) as first, proxy_to(direct_url) as second, proxy_to(direct_url) as third:
        yield first, second, third


def test_processes_cut_off_from_their_store_exit_within_twelve_seconds_of_sigterm(
    proxies: tuple[Proxy, Proxy, Proxy], direct_url: str, model_server: ModelServer, tmp_path: Path
) -> None:
    idle, busy, asking = proxies
    trace = tmp_path / "trace"
    write_settings(tmp_path, model_server)
    model_server.always(hangs())
    program = tmp_path / "program.sexp"
    program.write_text('(deftask ask (x) :instructions "{{x}}") (ask "one")')
    document = json.dumps([a_traced_task("root", trace, seconds=600)])
    root_id = weft("flow", "submit", "-", "--json", db=direct_url, stdin=document).json["root_id"]
    key = {"SERVED_KEY": "sk-test-0123456789"}
    with ExitStack() as stack:

        def start(*arguments: str | Path, by: Proxy) -> Process:
            log = stack.enter_context((tmp_path / f"{arguments[0]}.log").open("wb"))
            process = weft_process(*arguments, db=by.url, cwd=tmp_path, stderr=log, environment=key)
            return stack.enter_context(process)

        processes = {
            "a flow": start("flow", "run", root_id, by=busy),
            "a program": start("run", program, by=asking),
        }
        wait_for(lambda: bool(traces(trace) and model_server.requests))
        processes["nothing"] = start("serve", "--no-http", by=idle)
        wait_for(lambda: idle.commits >= 3)
        for proxy in proxies:
            proxy.blackhole()
        took = exit_seconds(processes)

    late = {name: seconds for name, seconds in took.items() if seconds >= EXIT_SECONDS}
    assert late == {}, "\n".join(log.read_text() for log in tmp_path.glob("*.log"))


async def test_processes_that_wait_to_store_something_exit_within_twelve_seconds_of_sigterm(
    direct_url: str, admin: asyncpg.Connection, tmp_path: Path
) -> None:
    await asyncio.to_thread(weft, "flow", "submit", "-", db=direct_url, stdin='[{"name": "other"}]')
    await hold_up_writes(admin)
    (tmp_path / "program.sexp").write_text("(+ 1 2)")
    (tmp_path / "flow.json").write_text('[{"name": "a"}]')
    with ExitStack() as stack:

        def start(*arguments: str) -> Process:
            log = stack.enter_context((tmp_path / f"{arguments[0]}.log").open("wb"))
            return stack.enter_context(weft_process(*arguments, db=direct_url, cwd=tmp_path, stderr=log))

        processes = {"a flow": start("flow", "run", "flow.json"), "a program": start("run", "program.sexp")}
        await until_it_waits_for(admin, direct_url)
        await asyncio.to_thread(wait_for, lambda: all(map(catches_sigterm, processes.values())))
        took = await asyncio.to_thread(exit_seconds, processes)

    assert {name: seconds for name, seconds in took.items() if seconds >= EXIT_SECONDS} == {}


def exit_seconds(processes: Mapping[str, Process]) -> dict[str, float]:
    """Ask processes to end; how long each takes, or how long they were waited for."""
    began = time.monotonic()
    took: dict[str, float] = {}
    for process in processes.values():
        process.send_signal(signal.SIGTERM)

    def have_ended() -> bool:
        seconds = time.monotonic() - began
        is_over = seconds > EXIT_SECONDS + 3
        for name, process in processes.items():
            if name not in took and (is_over or process.poll() is not None):
                took[name] = seconds
        return len(took) == len(processes)

    wait_for(have_ended)
    return took


# Leases that cannot be renewed


@pytest.mark.parametrize("is_stubborn", [False, True])
def test_a_worker_that_cannot_renew_its_lease_stops_its_attempts_before_another_takes_over(
    proxy: Proxy, direct_url: str, tmp_path: Path, is_stubborn: bool
) -> None:
    trace = tmp_path / "trace"
    document = json.dumps([a_traced_task("root", trace, seconds=600, is_stubborn=is_stubborn)])
    root_id = weft("flow", "submit", "-", "--json", db=direct_url, stdin=document).json["root_id"]
    lease = {"WEFT_LEASE_SECONDS": "4"}
    with weft_process("flow", "run", root_id, db=proxy.url, environment=lease) as first:
        wait_for(lambda: bool(traces(trace)))
        proxy.blackhole()
        with weft_process("flow", "run", root_id, db=direct_url, environment=lease) as second:
            wait_for(lambda: sum(pid == second.pid for _, pid in traces(trace)) > 20)

    pids = [pid for _, pid in traces(trace)]
    overlap = [pid for pid in pids[pids.index(second.pid) :] if pid == first.pid]
    assert overlap == [], f"{len(overlap)} lines of the first process after the second had begun"


def test_a_response_that_came_while_the_store_was_away_is_not_asked_for_again(
    proxy: Proxy, model_server: ModelServer, tmp_path: Path
) -> None:
    write_settings(tmp_path, model_server)
    (tmp_path / "program.sexp").write_text('(deftask ask (x) :instructions "{{x}}") (ask "one")')
    environment = {"SERVED_KEY": "sk-test-0123456789", "WEFT_LEASE_SECONDS": "2"}
    answered: list[float] = []

    async def answer_without_a_store(exchange: Exchange) -> None:
        if len(model_server.requests) == 1:
            proxy.refuse()
        await says("paid for")(exchange)
        answered.append(time.monotonic())

    model_server.always(answer_without_a_store)
    with weft_process("run", "program.sexp", db=proxy.url, cwd=tmp_path, environment=environment) as process:
        # Past the lease: the run is fenced while its response waits to be stored.
        wait_for(lambda: bool(answered) and time.monotonic() > answered[0] + 8)
        proxy.heal()
        _, err = process.communicate(timeout=60)

    assert process.returncode == 0, err.decode()
    assert len(model_server.requests) == 1
