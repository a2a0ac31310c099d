"""The synchronous front and the public names of the package."""

import time
from pathlib import Path

import pytest

import weft
from weft.executors.builtin import built_in_registry
from weft.executors.protocol import Work
from weft.tasks.record import JsonObject


def test_a_script_runs_a_flow_and_reads_its_results(tmp_path: Path) -> None:
    executors = built_in_registry()

    @executors.executor("double")
    def double(inputs: JsonObject) -> JsonObject:
        return {"n": inputs["n"] * 2}

    with weft.open(tmp_path / "weft.db", executors=executors) as app:
        flow = app.run(
            [
                {"name": "a", "schemas": {"method": "double"}, "inputs": {"n": 4}},
                {
                    "name": "b",
                    "schemas": {"method": "double"},
                    "dependencies": ["a"],
                    "params": {"input_mappings": {"n": "a.n"}},
                },
            ]
        )
        events = [event.type.value for event in app.events(flow.root.id)]

    assert {task.name: task.result for task in flow} == {"a": {"n": 8}, "b": {"n": 16}}
    assert events.count("task.completed") == 2


def test_a_flow_begun_in_the_background_is_waited_for_and_cancelled(tmp_path: Path) -> None:
    with weft.open(tmp_path / "weft.db") as app:
        sleep = {"schemas": {"method": "sleep"}, "inputs": {"seconds": 600}}
        short = app.begin([{"name": "short"}])
        long = app.begin([{"name": "long", **sleep}])
        assert app.wait(short).root.status.value == "completed"
        assert app.cancel(long, reason="enough") == (long,)
        ended = app.wait(long)

        assert (ended.root.status.value, ended.root.error) == ("cancelled", "enough")
        assert [task.name for task in app.tasks(limit=1)] == ["long"]


def test_a_notebook_shows_the_tree_with_everything_escaped(tmp_path: Path) -> None:
    with weft.open(tmp_path / "weft.db") as app:
        flow = app.submit([{"name": "<script>"}, {"name": "child"}])

    html = flow._repr_html_()

    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert "child" in html


def test_errors_are_raised_as_they_are(tmp_path: Path) -> None:
    with (
        weft.open(tmp_path / "weft.db") as app,
        pytest.raises(Exception, match="required field 'name' is missing"),
    ):
        app.submit([{"nam": "a"}])


def test_public_names_are_what_they_say() -> None:
    other = {
        "build": "weft.language.builder",
        "open": "open_app",
        "testing": "weft.testing",
    }

    assert {name: getattr(weft, name).__name__ for name in weft.__all__} == {
        name: other.get(name, name) for name in weft.__all__
    }
    with pytest.raises(AttributeError):
        weft.nothing  # noqa: B018


async def test_the_async_front_streams_events(tmp_path: Path) -> None:
    async with await weft.App.open(tmp_path / "weft.db") as app:
        root_id = await app.begin([{"name": "a"}, {"name": "b", "dependencies": ["a"]}])
        await (await app.engine()).join(root_id)
        seen = [event.type.value async for event in app.watch(root_id)]

    assert seen[0] == "flow.created"
    assert seen.count("task.completed") == 2


def test_work_is_what_executors_get() -> None:
    assert {"task", "attempt", "inputs", "dependencies", "report"} <= set(Work.__struct_fields__)


def test_interrupted_it_leaves_sooner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.app.sync.INTERRUPT_GRACE_SECONDS", 0.01)
    limits = weft.EngineLimits(grace_seconds=600)

    def interrupted() -> None:
        with weft.open(tmp_path / "weft.db", limits=limits) as app:
            app.begin([{"name": "long", "schemas": {"method": "sleep"}, "inputs": {"seconds": 600}}])
            raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert time.monotonic() - began < 60
