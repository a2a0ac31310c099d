"""Engine processes that die: at every commit, at random, or that only seem to."""

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Process, read_until, started, wait_for, weft
from weft.app.app import App
from weft.ids import TaskId
from weft.store.protocol import EventFilter

POINTS = ["store.began", "store.applied", "store.committed"]


def a_document() -> list[dict[str, Any]]:
    """Return a flow of 30 tasks in layers of three, each dependent on two of the layer before."""
    tasks: list[dict[str, Any]] = []
    for number in range(30):
        layer, place = divmod(number, 3)
        waits = [f"t{(layer - 1) * 3 + (place + step) % 3}" for step in (0, 1)] if layer else []
        tasks.append({"name": f"t{number}", "schemas": {"method": "noop"}, "dependencies": waits})
    return tasks


def submitted(db: str, document: object) -> TaskId:
    return TaskId(weft("flow", "submit", "-", "--json", db=db, stdin=json.dumps(document)).json["root_id"])


async def outcomes(
    db: str, root_id: TaskId
) -> tuple[Counter[str], dict[TaskId, int], list[tuple[TaskId, int]]]:
    """Statuses, how often each task ended, and every (task, attempt) that was started."""
    async with await App.open(db) as app:
        flow = await app.flow_of(root_id)
        events = await app.events(EventFilter(tree=root_id, limit=1_000_000))
    ends = Counter(event.task_id for event in events if event.type.value in {"task.completed", "task.failed"})
    starts = [
        (event.task_id, event.facts["attempt"]) for event in events if event.type.value == "task.started"
    ]
    return Counter(task.status.value for task in flow), dict(ends), starts


@pytest.mark.parametrize("point", POINTS)
async def test_a_flow_goes_on_after_a_kill_at_any_commit(store_url: str, point: str) -> None:
    is_whole_series = not store_url.startswith("postgresql")
    count = 0
    while True:
        count += 1 if is_whole_series else 4
        root_id = submitted(store_url, a_document())
        killed = weft("flow", "run", root_id, db=store_url, WEFT_FAULT=f"{point}:{count}")
        if killed.code == 0:
            break
        assert killed.code == -9
        again = weft("flow", "run", root_id, "--json", db=store_url)

        assert (again.code, again.json["counts"]) == (0, {"completed": 30}), f"{point} {count}: {again.err}"
        _, ends, starts = await outcomes(store_url, root_id)
        assert set(ends.values()) == {1}
        assert len(ends) == 30
        assert len(starts) == len(set(starts))
    assert count > 12, "the series ended before the flow did"


def test_ctrl_c_gives_back_what_is_unfinished_and_says_how_to_go_on(tmp_path: Path) -> None:
    db = str(tmp_path / "weft.db")
    marker = tmp_path / "started"
    script = f"import time, pathlib; pathlib.Path({str(marker)!r}).touch(); time.sleep(600)"
    document = [
        {"name": "long", "schemas": {"method": "command"}, "inputs": {"argv": [sys.executable, "-c", script]}}
    ]
    with started("flow", "run", "-", db=db, stdin=json.dumps(document)) as process:
        wait_for(marker.exists)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "resume with: weft flow run " in err.decode()
    (task,) = weft("tasks", "list", "--json", db=db).json["tasks"]
    assert task["status"] == "in_progress"
    assert "task.released" in weft("tasks", "events", task["id"], db=db).out


def test_a_second_signal_leaves_at_once(tmp_path: Path) -> None:
    db = str(tmp_path / "weft.db")
    marker = tmp_path / "started"
    script = (
        "import signal, time, pathlib; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"pathlib.Path({str(marker)!r}).touch(); time.sleep(600)"
    )
    document = [
        {"name": "deaf", "schemas": {"method": "command"}, "inputs": {"argv": [sys.executable, "-c", script]}}
    ]
    with started("flow", "run", "-", db=db, stdin=json.dumps(document)) as process:
        wait_for(marker.exists)
        process.send_signal(signal.SIGTERM)
        read_until(process.stderr, "stopping")
        process.send_signal(signal.SIGTERM)

        assert process.wait(timeout=5) == 130


def test_a_stopped_process_loses_its_task_and_its_late_result(tmp_path: Path) -> None:
    db = str(tmp_path / "weft.db")
    marker, go = tmp_path / "started", tmp_path / "go"
    script = (
        f"import time, pathlib; pathlib.Path({str(marker)!r}).open('a').write('x')\n"
        f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)"
    )
    document = [
        {"name": "slow", "schemas": {"method": "command"}, "inputs": {"argv": [sys.executable, "-c", script]}}
    ]
    root_id = submitted(db, document)
    with started("flow", "run", root_id, db=db, WEFT_LEASE_SECONDS="1") as first:
        wait_for(marker.exists)
        os.kill(first.pid, signal.SIGSTOP)
        with started("flow", "run", root_id, db=db, WEFT_LEASE_SECONDS="1") as second:
            wait_for(lambda: len(marker.read_text()) == 2)  # the second has taken it over
            go.touch()
            second.communicate(timeout=60)
        os.kill(first.pid, signal.SIGCONT)
        _, err = first.communicate(timeout=60)

    assert second.returncode == 0
    assert first.returncode == 0, err
    _, ends, starts = asyncio.run(outcomes(db, root_id))
    assert set(ends.values()) == {1}
    assert sorted(attempt for _, attempt in starts) == [1, 2]


@pytest.mark.slow
def test_a_minute_of_random_kills_loses_and_doubles_nothing(tmp_path: Path) -> None:
    chaos(str(tmp_path / "weft.db"), seconds=60, tasks=200)


def test_some_random_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    chaos(str(tmp_path / "weft.db"), seconds=5, tasks=60)


def chaos(db: str, *, seconds: float, tasks: int) -> None:
    """Four processes run a flow; every half second a random one is killed and another started."""
    pick = random.Random(3)
    pause = seconds / tasks * 3
    document = [
        {
            "name": f"t{number}",
            "schemas": {"method": "sleep"},
            "inputs": {"seconds": round(pick.uniform(0, pause), 3)},
            "dependencies": [f"t{parent}" for parent in {pick.randrange(number) for _ in range(2)}]
            if number
            else [],
        }
        for number in range(tasks)
    ]
    root_id = submitted(db, document)

    with ExitStack() as stack:

        def worker() -> Process:
            return stack.enter_context(started("flow", "run", root_id, "--concurrency", "2", db=db))

        processes = [worker() for _ in range(4)]
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(0.5)
            victim = pick.randrange(4)
            processes[victim].kill()
            processes[victim].communicate()
            processes[victim] = worker()
        for process in processes:
            process.communicate(timeout=300)

    statuses, ends, starts = asyncio.run(outcomes(db, root_id))
    assert statuses == {"completed": tasks}
    assert len(ends) == tasks
    assert set(ends.values()) == {1}
    assert len(starts) == len(set(starts))
