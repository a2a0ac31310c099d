"""What the store in memory does beyond the common contract."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import weft
from tests.builders import NOON, a_flow
from tests.command_line import weft as weft_command
from weft.app.wiring import open_store
from weft.config.settings import Settings, load_settings
from weft.store.errors import StoreError
from weft.store.protocol import EVERYONE, TaskFilter, TaskStore
from weft.tasks.operations import SubmitFlow
from weft.tasks.record import Status

NOTHING = {"name": "a", "schemas": {"method": "noop"}}


async def count(store: TaskStore) -> int:
    return (await store.list(TaskFilter(), owner=EVERYONE)).total


async def test_stores_without_a_name_share_nothing() -> None:
    first, second = [await open_store(Settings(db=":memory:")) for _ in range(2)]
    await first.operate(SubmitFlow(a_flow("a"), NOON), owner=EVERYONE)

    assert (await count(first), await count(second)) == (1, 0)
    await first.close()
    await second.close()


async def test_stores_of_one_name_share_their_records_until_the_last_is_closed() -> None:
    first, second = [await open_store(Settings(db=":memory:shared")) for _ in range(2)]
    await first.operate(SubmitFlow(a_flow("a"), NOON), owner=EVERYONE)
    await first.close()

    assert await count(second) == 1
    await second.close()
    third = await open_store(Settings(db=":memory:shared"))
    assert await count(third) == 0
    await third.close()


async def test_a_closed_store_in_memory_says_so() -> None:
    store = await open_store(Settings(db=":memory:"))
    await store.close()
    await store.close()

    with pytest.raises(StoreError, match="closed"):
        await count(store)
    with pytest.raises(StoreError, match="closed"):
        await store.operate(SubmitFlow(a_flow("a"), NOON), owner=EVERYONE)


async def test_a_store_in_memory_uses_no_thread() -> None:
    before = threading.active_count()
    async with await weft.App.open(":memory:") as app:
        summary = await app.run([NOTHING])
        assert threading.active_count() == before

    assert summary.is_over


def test_scripts_and_notebooks_can_use_a_store_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with weft.open(":memory:") as app:
        flow = app.run([NOTHING])

        assert flow.root.status is Status.COMPLETED
        assert app.get(flow.root.id).status is Status.COMPLETED
    assert list(tmp_path.iterdir()) == []


def test_event_loops_of_several_threads_can_share_a_store_in_memory() -> None:
    def work(name: str) -> None:
        with weft.open(":memory:threads") as app:
            for number in range(20):
                app.submit([{"name": f"{name} {number}"}])
                app.tasks(limit=1)

    with weft.open(":memory:threads") as app, ThreadPoolExecutor(4) as threads:
        list(threads.map(work, "abcd"))
        assert len(app.tasks(limit=1000)) == 80


def test_settings_take_a_store_in_memory(tmp_path: Path) -> None:
    assert load_settings(environment={"WEFT_DB": ":memory:"}, folder=tmp_path).db == ":memory:"


def test_a_command_can_run_a_flow_in_memory_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "flow.json").write_text('[{"name": "a", "schemas": {"method": "noop"}}]')

    ran = weft_command("flow", "run", str(tmp_path / "flow.json"), db=":memory:")

    assert ran.code == 0, ran.err
    assert [file.name for file in tmp_path.iterdir()] == ["flow.json"]
    assert weft_command("tasks", "list", db=":memory:").code == 3
