"""Registered templates as executors of tasks and in programs, on every store."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from tests.engine_bench import QUICK
from tests.invariants import check_over
from tests.runs_bench import MortalStore, RunsBench
from weft.app.app import App
from weft.app.programs import arun, registered
from weft.app.templates import TemplateInUse
from weft.ids import TaskId, new_task_id
from weft.language.ast import Template
from weft.language.diagnostics import InvalidProgram
from weft.language.reading import read_text
from weft.runs.program import program_of
from weft.runs.templates import UnknownTemplate
from weft.store.errors import StoreError
from weft.store.protocol import EVERYONE, Owner, TaskStore
from weft.tasks.events import EventType
from weft.tasks.flow import Flow
from weft.tasks.operations.fire import FireSchedule
from weft.tasks.parsing.problems import InvalidTasks
from weft.tasks.record import JsonObject, Status, Task
from weft.workflows import Workflow

ASK = '(deftask ask ((x string)) :instructions "{{x}}")'
BOTH = '(template both ((a string) (b "second")) (list (ask a) (ask b)))'


async def register(app: App, *texts: str) -> list[int]:
    templates = [form for text in texts for form in read_text(text, "<test>").forms]
    added = await app.library.add([form for form in templates if isinstance(form, Template)])
    return [one.template.version for one in added]


def task(name: str, method: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "schemas": {"method": method}, **fields}


MIXED = [
    task("all", "aggregate_results", dependencies=["told"]),
    task("made", "command", inputs={"argv": ["printf", "first"]}, parent_id="all"),
    task(
        "asked",
        "both",
        parent_id="all",
        dependencies=["made"],
        params={"input_mappings": {"a": "made.stdout"}, "reuse": False},
    ),
    task(
        "told",
        "command",
        parent_id="all",
        inputs={"argv": ["cat"]},
        dependencies=["asked"],
        params={"input_mappings": {"stdin": "asked.content"}},
    ),
]


def result_of(task: Task) -> JsonObject:
    assert task.result is not None, task.error
    return task.result


async def ended(bench: RunsBench, app: App, document: Any) -> Flow:
    root_id = (await app.run(document)).root_id
    await app.stop(grace_seconds=0)
    return await bench.flow(root_id)


def one(flow: Flow, name: str) -> Any:
    return next(found for found in flow if found.name == name)


async def test_a_task_names_a_template_and_its_inputs_are_the_arguments(store: TaskStore) -> None:
    bench = RunsBench(store)
    app = bench.app()
    await register(app, ASK, BOTH)

    flow = await ended(bench, app, [task("asked", "both", inputs={"a": "first"})])

    assert flow.root.status is Status.COMPLETED, flow.root.error
    assert result_of(flow.root)["parsedContent"] == ["answer to first", "answer to second"]
    assert [(depth, found.name) for found, depth in flow.walk()] == [
        (0, "asked"),
        (1, "both"),
        (2, "ask"),
        (2, "ask"),
    ]
    assert program_of(flow.root).templates == {"both": 1, "ask": 1}


async def test_many_tasks_learn_of_a_template_at_the_same_time(store: TaskStore) -> None:
    bench = RunsBench(store)
    app = bench.app()
    await register(app, "(template size (x) (length x))")
    many = [task(f"{number}", "size", parent_id="all", inputs={"x": [number]}) for number in range(8)]

    flow = await ended(bench, app, [task("all", "noop"), *many])

    assert {found.status for found in flow} == {Status.COMPLETED}


async def test_params_template_names_one_too_and_a_version_of_it(store: TaskStore) -> None:
    bench = RunsBench(store)
    app = bench.app()
    await register(app, "(template size (x) (length x))")
    await register(app, "(template size (x) (+ 1 (length x)))")

    def sized(version: str) -> dict[str, Any]:
        return task("sized", "template", inputs={"x": [1]}, params={"template": f"size{version}"})

    assert [
        result_of((await ended(bench, app, [sized(version)])).root)["parsedContent"] for version in ("", "@1")
    ] == [2, 1]
    flow = await ended(bench, app, [task("sized", "size@1", inputs={"x": [1, 2]})])
    assert result_of(flow.root)["parsedContent"] == 2


async def test_inputs_that_do_not_fit_are_refused_before_anything_is_stored(store: TaskStore) -> None:
    app = RunsBench(store).app()
    await register(app, ASK, BOTH)

    with pytest.raises(InvalidTasks) as refused:
        await app.submit(
            [
                task("root", "noop"),
                task("missing", "both", parent_id="root"),
                task("wrong", "both", parent_id="root", inputs={"a": 1, "c": 2}),
                task("unknown", "template", parent_id="root", params={"template": "boht"}),
                task("elsewhere", "not-known-here", parent_id="root", inputs={"a": 1}),
            ]
        )

    assert sorted(problem.path for problem in refused.value.found) == [
        "missing.inputs",
        "unknown",
        "wrong.inputs",
        "wrong.inputs.a",
    ]
    assert "did you mean 'both'?" in str(refused.value.problems())


async def test_what_is_mapped_is_checked_when_the_task_starts(store: TaskStore) -> None:
    bench = RunsBench(store)
    app = bench.app()
    await register(app, ASK, BOTH)
    made = task("made", "command", inputs={"argv": ["printf", "first"]}, parent_id="all")
    mapped = {"input_mappings": {"a": "made.exit_code"}}
    asked = task("asked", "both", parent_id="all", dependencies=["made"], params=mapped)

    flow = await ended(bench, app, [task("all", "noop"), made, asked])

    assert one(flow, "asked").status is Status.FAILED
    assert 'inputs.a: 0 is not of type "string"' in one(flow, "asked").error
    assert not bench.asked


async def run_flow(bench: RunsBench, root_id: TaskId, store: TaskStore) -> None:
    app = bench.app(store)
    try:
        await app.begin(root_id)
        await app.wait(root_id)
    finally:
        await app.stop(grace_seconds=0)


async def die_at(bench: RunsBench, root_id: TaskId, write: int) -> bool:
    """Run a flow until the n-th write, which is made or not, and no further; whether it came to that."""
    mortal = MortalStore(bench.store, dies_at=write, is_written=write % 2 == 0)
    with suppress(StoreError):
        await run_flow(bench, root_id, mortal.as_store)
    await bench.store.recover(dead=await bench.store.workers())
    return mortal.is_dead


async def test_a_mixed_flow_goes_on_after_a_death_at_any_write(store: TaskStore) -> None:
    bench = RunsBench(store)
    await register(bench.app(), ASK, BOTH)
    write, is_dead = 0, True
    while is_dead:
        write += 1
        flow = await bench.app().submit(MIXED)
        is_dead = await die_at(bench, flow.root.id, write)
        left = await bench.flow(flow.root.id)
        kept = (one(left, "asked").params or {}).get("program")
        done = [one.inputs["x"] for one in left if one.name == "ask" and one.status is Status.COMPLETED]
        asked = bench.asked.copy()
        # What is registered meanwhile changes only what has not begun.
        newest = await register(bench.app(), f'{ASK[:-1]} :description "{write}")')
        await run_flow(bench, flow.root.id, store)
        left = await bench.flow(flow.root.id)

        await check_over(store, flow.root.id)
        assert {task.status for task in left} == {Status.COMPLETED}, write
        assert one(left, "told").result["stdout"] == '["answer to first", "answer to second"]'
        assert [bench.asked[prompt] - asked[prompt] for prompt in done] == [0] * len(done)
        if kept is None:
            assert program_of(one(left, "asked")).templates["ask"] == newest[0]
        else:
            assert one(left, "asked").params["program"] == kept

    assert write > 10


async def test_a_definition_is_pinned_at_the_first_start(store: TaskStore) -> None:
    bench = RunsBench(store)
    await register(bench.app(), ASK, BOTH)
    flow = await bench.app().submit([task("asked", "both", inputs={"a": "first"})])
    mortal = MortalStore(store)

    def answer(prompt: str) -> str:
        if prompt == "second" and not mortal.is_dead:
            mortal.die()
        return f"answer to {prompt}"

    bench.answer = answer
    assert await bench.live(flow.root.id, mortal)
    await register(bench.app(), '(template both ((a string)) (ask (string-append a "!")))')
    await bench.app().library.remove("ask", is_forced=True)
    outcome = await bench.go_on(flow.root.id)

    assert outcome.result is not None
    assert outcome.result.value == ["answer to first", "answer to second"]
    assert bench.asked["first"] == 1
    again = await ended(bench, bench.app(), [task("asked", "both", inputs={"a": "first"})])
    assert "ask" in (again.root.error or "")


async def test_an_engine_learns_of_a_template_that_is_registered_while_it_runs(store: TaskStore) -> None:
    bench = RunsBench(store)
    serving, other = bench.app(), bench.app()
    await serving.engine()
    # Another worker lives, so what nobody here knows is left to that one, and looked for now and then.
    await other.engine()
    root_id = await serving.begin([task("sized", "late", inputs={"x": [1]})])
    following = await (await serving.engine()).join(root_id)
    await register(other, "(template late (x) (length x))")

    await following.wait()
    await serving.stop(grace_seconds=0)
    await other.stop(grace_seconds=0)

    assert result_of((await bench.flow(root_id)).root)["parsedContent"] == 1


async def test_an_engine_alone_finds_a_template_that_is_registered_after_the_claim(store: TaskStore) -> None:
    bench = RunsBench(store)
    patient = structs.replace(QUICK, lookup_seconds=60.0)
    serving, other = App(store, settings=bench.settings, limits=patient), bench.app()
    root_id = await serving.begin([task("sized", "late", inputs={"x": [1]})])
    running = asyncio.create_task(serving.wait(root_id))
    async for event in other.watch(root_id):
        if event.type is EventType.TASK_STARTED:
            await register(other, "(template late (x) (length x))")
            break
    await running
    await serving.stop(grace_seconds=0)

    assert result_of((await bench.flow(root_id)).root)["parsedContent"] == 1


@pytest.mark.parametrize(
    ("method", "newest", "value"),
    [
        ("size", False, 1),
        ("size", True, 2),
        ("size@1", True, 1),
        ("template", False, 1),
        ("template", True, 2),
    ],
)
async def test_a_copy_keeps_the_definition_unless_the_newest_is_asked_for(
    store: TaskStore, method: str, newest: bool, value: int
) -> None:
    bench = RunsBench(store)
    app = bench.app()
    await register(app, "(template size (x) (length x))")
    params = {"template": "size"} if method == "template" else None
    first = await ended(bench, app, [task("sized", method, inputs={"x": [1]}, params=params)])
    assert result_of(first.root)["parsedContent"] == 1
    await register(app, "(template size (x) (+ 1 (length x)))")
    copy = await app.copy(first.root.id, newest=newest)

    assert result_of((await ended(bench, app, copy)).root)["parsedContent"] == value


async def test_a_copy_of_a_program_is_that_program_whatever_is_asked_for(
    store: TaskStore,
) -> None:
    bench = RunsBench(store)
    run = await bench.run(f'{ASK} (ask "one")')
    copy = await bench.app().copy(run.root_id, newest=True)

    assert program_of(copy.root) == program_of((await bench.flow(run.root_id)).root)


async def test_programs_use_registered_templates_and_keep_the_versions(store: TaskStore) -> None:
    bench = RunsBench(store)
    app = bench.app()
    await register(app, ASK, BOTH, "(template unrelated () 1)")

    result = await arun('(both input :b "x")', app=app, input="first")
    named = await arun(registered("both"), app=app, a="first")
    reference = await arun('<task ref="both"><inputs><input name="a">k</input></inputs></task>', app=app)
    await app.stop(grace_seconds=0)

    assert result.value == ["answer to first", "answer to x"]
    assert named.value == ["answer to first", "answer to second"]
    assert reference.value == ["answer to k", "answer to second"]
    root = await app.get(result.notes["root_id"])
    assert program_of(root).templates == {"both": 1, "ask": 1}


async def test_a_run_by_name_is_refused_when_its_arguments_do_not_fit(store: TaskStore) -> None:
    app = RunsBench(store).app()
    await register(app, ASK, BOTH)

    with pytest.raises(InvalidTasks) as refused:
        await arun(registered("both"), app=app, a=1, style="x")
    with pytest.raises(UnknownTemplate, match="newest version is 1"):
        await arun(registered("both@2"), app=app, a="x")

    assert len(refused.value.found) == 2
    assert (await store.templates(owner=EVERYONE))[0].name == "ask"


async def test_an_input_hides_neither_a_template_nor_a_built_in_from_the_templates(store: TaskStore) -> None:
    bench = RunsBench(store)
    app = bench.app()
    await register(
        app,
        "(template inner (x) (list x 1))",
        "(template outer (list inner) (if inner (middle list) nil))",
        "(template middle (x) (inner x))",
    )

    result = await arun(registered("outer"), app=app, list="l", inner=2)
    await app.stop(grace_seconds=0)

    assert result.value == ["l", 1]


async def test_a_program_may_define_what_is_registered_unless_others_need_that(store: TaskStore) -> None:
    bench = RunsBench(store)
    app = bench.app()
    await register(app, ASK, BOTH)

    own = await arun(f'{ASK} {BOTH} (both "k")', app=app)
    same = await arun(f'{ASK} (both "k")', app=app)
    mine = await arun("(template ask (x) (+ x 1)) (ask 1)", app=app)
    with pytest.raises(InvalidProgram, match="needs the registered 'ask'"):
        await arun('(template ask (x) (+ x 1)) (both "k")', app=app)
    await app.stop(grace_seconds=0)

    assert own.value == same.value == ["answer to k", "answer to second"]
    assert mine.value == 2


async def test_templates_are_checked_with_those_that_use_them(store: TaskStore) -> None:
    app = RunsBench(store).app()
    await register(app, ASK, BOTH)

    with pytest.raises(InvalidProgram) as refused:
        await register(app, "(template ask (x y) (list x y))", "(template other (x) (nobody x))")
    codes = {(problem.span.source.name, problem.code) for problem in refused.value.found}

    assert codes == {("both@1", "wrong-arity"), ("<test>", "unbound-name")}
    with pytest.raises(InvalidProgram, match="name of an executor"):
        await register(app, "(template command (x) x)")
    with pytest.raises(InvalidProgram, match="it ends like a version"):
        await register(app, "(template ask@2 (x) x)")
    with pytest.raises(TemplateInUse, match="used by both"):
        await app.library.remove("ask")
    assert [found.version for found in await store.templates(owner=EVERYONE)] == [1, 1]


async def test_each_owner_calls_the_templates_of_their_own(store: TaskStore) -> None:
    bench = RunsBench(store)
    operator, ann = bench.app(), bench.app()
    ann.owner = Owner("ann")
    await register(operator, "(template who () 0)")

    with pytest.raises(UnknownTemplate):
        await arun(registered("who"), app=ann)
    await register(ann, "(template who () 1)")
    result = await arun(registered("who"), app=ann)
    flow = await ended(bench, ann, [task("asked", "who")])
    await ann.stop(grace_seconds=0)

    assert result.value == result_of(flow.root)["parsedContent"] == 1


async def test_a_step_of_a_workflow_may_name_a_template(store: TaskStore) -> None:
    bench = RunsBench(store)
    app = bench.app()
    await register(app, ASK, BOTH)
    workflow = Workflow("asking").step("both", output_name="pair", dynamic_input_mappings={"a": "a"})

    result = await workflow.arun(app, a="first")
    await app.stop(grace_seconds=0)

    assert result["pair"]["parsedContent"] == ["answer to first", "answer to second"]


async def test_what_may_choose_a_template_gets_all_of_them(store: TaskStore) -> None:
    bench = RunsBench(store, lambda prompt: {"success": True} if prompt.startswith("judge") else prompt)
    app = bench.app()
    judge = (
        '(deftask judge (director_result) :subtype "evaluator" :criteria "short texts" '
        ':instructions "judge {{director_result}}" :output "json")'
    )
    await register(app, ASK, judge)

    root = await app.get(
        (
            await arun(
                '(director-evaluator-loop :criteria "short texts" :max-iterations 1 :director (ask "k"))',
                app=app,
            )
        ).notes["root_id"]
    )
    await app.stop(grace_seconds=0)

    assert program_of(root).templates == {"ask": 1, "judge": 1}


@pytest.mark.parametrize("reuse", [None, True], ids=["as usual", "reuse"])
async def test_every_firing_of_a_schedule_asks_the_model_unless_it_may_reuse(
    store: TaskStore, reuse: bool | None
) -> None:
    bench = RunsBench(store)
    bench.with_handler(lambda payload: "ok")
    app = bench.app()
    await register(app, ASK)
    params = None if reuse is None else {"reuse": reuse}
    schedule = {"schedule_type": "interval", "schedule_expression": "3600", "schedule_enabled": True}
    definition = await app.submit([task("daily", "ask", inputs={"x": "one"}, params=params, **schedule)])
    due = definition.root.next_run_at
    assert due is not None

    for day in range(3):
        fire = FireSchedule(task_id=definition.root.id, new_id=new_task_id, now=due + timedelta(hours=day))
        firing = await store.operate(fire, owner=EVERYONE)
        assert firing.run is not None
        assert (await ended(bench, app, firing.run)).root.status is Status.COMPLETED

    assert bench.asked.total() == (3 if reuse is None else 1)


@pytest.mark.parametrize("reuse", [False, True])
async def test_a_copy_asks_the_model_unless_it_may_reuse(store: TaskStore, reuse: bool) -> None:
    bench = RunsBench(store)
    bench.with_handler(lambda payload: "ok")
    run = await bench.run(f'{ASK} (ask "one")')
    copy = await bench.app().copy(run.root_id, reuse=reuse)

    await bench.go_on(copy.root.id)
    await bench.run(f'{ASK} (ask "one")')

    assert bench.asked.total() == (1 if reuse else 2)
