"""Processes of one store whose clocks differ: leases hold, and no task runs twice."""

import asyncio
import json
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Process, wait_for, weft
from tests.engine_bench import task
from tests.faults.processes import a_traced_task, traces, weft_process
from weft.app.app import App
from weft.ids import TaskId
from weft.store.protocol import EventFilter
from weft.tasks.events import EventType


def run_with_clocks(db: str, root_id: str, *offsets: float) -> list[tuple[int, str]]:
    """Run a flow in processes whose clocks are that wrong; the exit code and the errors of each."""
    arguments = ("flow", "run", root_id, "--concurrency", "2")
    with ExitStack() as stack:
        processes: list[Process] = [
            stack.enter_context(weft_process(*arguments, db=db, clock_offset_seconds=offset))
            for offset in offsets
        ]
        errors = [process.communicate(timeout=120)[1].decode() for process in processes]
    return [(process.returncode, err) for process, err in zip(processes, errors, strict=True)]


async def events_of(db: str, root_id: str) -> Counter[EventType]:
    async with await App.open(db) as app:
        events = await app.events(EventFilter(tree=TaskId(root_id), limit=100_000))
    return Counter(event.type for event in events)


def submitted(db: str, document: list[dict[str, Any]]) -> str:
    ran = weft("flow", "submit", "-", "--json", db=db, stdin=json.dumps(document))
    return str(ran.json["root_id"])


@pytest.mark.parametrize("offset", [30.0, 3600.0], ids=["30 s", "an hour"])
def test_no_task_runs_twice_when_the_clocks_of_two_processes_differ(
    direct_url: str, tmp_path: Path, offset: float
) -> None:
    trace = tmp_path / "trace"
    names = [f"t{number}" for number in range(8)]
    root_id = submitted(
        direct_url,
        [
            {"name": "root"},
            *(a_traced_task(name, trace, seconds=1.2, dependencies=["root"]) for name in names),
        ],
    )
    ran = run_with_clocks(direct_url, root_id, 0.0, offset)

    assert [code for code, _ in ran] == [0, 0], ran
    performers = {(name, pid) for name, pid in traces(trace)}
    assert sorted(name for name, _ in performers) == names, "a task ran in both processes"
    assert "taken for dead" not in "".join(err for _, err in ran), "a lease was lost"
    counts = asyncio.run(events_of(direct_url, root_id))
    assert counts[EventType.TASK_STARTED] == len(names) + 1
    assert counts[EventType.TASK_COMPLETED] == len(names) + 1
    assert EventType.TASK_RELEASED not in counts


PLUGIN = """
import pathlib, time
def rare(inputs):
    with pathlib.Path(inputs["trace"]).open("a") as trace:
        trace.write(inputs["name"] + " 0\\n")
    time.sleep(1.2)
"""


FAIL_ONCE = """
import pathlib, sys
marker = pathlib.Path(sys.argv[1])
has_failed = marker.exists()
marker.touch()
sys.exit(0 if has_failed else 1)
"""


def install_plugin(folder: Path) -> None:
    """Make a package with an executor of its own, for the processes that look for packages in this folder."""
    info = folder / "rare_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rare-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[weft.executors]\nrare = rare_plugin:rare\n")
    (folder / "rare_plugin.py").write_text(PLUGIN)


def test_a_process_whose_clock_is_ahead_leaves_to_others_what_only_they_can_perform(
    direct_url: str, tmp_path: Path
) -> None:
    install_plugin(tmp_path / "packages")
    trace = tmp_path / "trace"
    rare = [
        task(f"t{number}", "rare", "root", inputs={"name": f"t{number}", "trace": str(trace)})
        for number in range(6)
    ]
    root_id = submitted(direct_url, [{"name": "root"}, *rare])
    arguments = ("flow", "run", root_id, "--concurrency", "2")
    with weft_process(*arguments, db=direct_url, packages=tmp_path / "packages") as knowing:
        wait_for(lambda: bool(traces(trace)))  # who begins earlier is alone, and fails what it does not know
        with weft_process(*arguments, db=direct_url, clock_offset_seconds=3600) as ahead:
            errors = [process.communicate(timeout=120)[1].decode() for process in (knowing, ahead)]

    assert (knowing.returncode, ahead.returncode) == (0, 0), errors
    assert sorted(name for name, _ in traces(trace)) == [one["name"] for one in rare]


def test_a_retry_is_due_after_its_delay_when_the_clock_of_who_failed_was_ahead(
    direct_url: str, tmp_path: Path
) -> None:
    marker = tmp_path / "tried"
    inputs = {"argv": [sys.executable, "-c", FAIL_ONCE, str(marker)]}
    retry = {"retry": {"attempts": 2, "delay": 3.0}}
    root_id = submitted(direct_url, [task("root", "command", inputs=inputs, params=retry)])
    with weft_process("flow", "run", root_id, db=direct_url, clock_offset_seconds=3600):
        wait_for(lambda: asyncio.run(events_of(direct_url, root_id))[EventType.TASK_RETRIED] == 1)
    with weft_process("flow", "run", root_id, db=direct_url) as right:
        _, err = right.communicate(timeout=30)

    assert right.returncode == 0, err
