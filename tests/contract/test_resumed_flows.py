"""What can be resumed as a run, on every store."""

import pytest

from tests.runs_bench import RunsBench
from weft.language.ast import Template
from weft.language.sexp import read_program
from weft.language.source import Source
from weft.runs.errors import NoRun
from weft.runs.outcome import outcome_of
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.record import Status


@pytest.fixture
def runs(store: TaskStore) -> RunsBench:
    return RunsBench(store)


@pytest.mark.parametrize("is_done", [False, True], ids=["pending", "done"])
async def test_a_flow_that_is_no_run_is_not_resumed_as_one(runs: RunsBench, is_done: bool) -> None:
    app = runs.app()
    flow = await app.submit([{"name": "tea", "schemas": {"method": "noop"}}])
    if is_done:
        await app.run(flow)
        await app.stop(grace_seconds=0)

    with pytest.raises(NoRun, match=f"resume it with: weft flow run {flow.root.id}"):
        await app.resume(flow.root.id)

    root = await app.get(flow.root.id)
    assert root.status is (Status.COMPLETED if is_done else Status.PENDING)
    assert await app.store.running_flows(owner=EVERYONE) == []
    if is_done:
        with pytest.raises(NoRun):
            await outcome_of(app.store, root)


async def test_a_task_whose_executor_is_a_template_is_resumed_as_a_run(runs: RunsBench) -> None:
    app = runs.app()
    (template,) = read_program(Source("note", "(template note () 7)")).forms
    assert isinstance(template, Template)
    await app.library.add([template])
    flow = await app.submit([{"name": "n", "schemas": {"method": "note"}}])

    outcome = await runs.go_on(flow.root.id)

    assert outcome.result is not None
    assert outcome.result.value == 7
