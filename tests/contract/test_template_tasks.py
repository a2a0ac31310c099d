"""Registered templates as executors of tasks and in programs, on every store."""

from typing import Any

import pytest

from tests.runs_bench import MortalStore, RunsBench
from weft.app import App
from weft.language.problems import InvalidProgram
from weft.language.reading import read_text
from weft.language.tree import Template
from weft.library import TemplateInUse, add_templates, remove_template
from weft.program_runs import arun, registered
from weft.runs.program import program_of
from weft.runs.templates import UnknownTemplate
from weft.store.protocol import EVERYONE, Owner, TaskStore
from weft.tasks.flow import Flow
from weft.tasks.problems import InvalidTasks
from weft.tasks.record import Status
from weft.workflows import Workflow

ASK = '(deftask ask ((x string)) :instructions "{{x}}")'
BOTH = '(template both ((a string) (b "second")) (list (ask a) (ask b)))'


async def register(app: App, *texts: str) -> list[int]:
    templates = [form for text in texts for form in read_text(text, "<test>").forms]
    added = await add_templates(app, [form for form in templates if isinstance(form, Template)])
    return [one.template.version for one in added]


def task(name: str, method: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "schemas": {"method": method}, **fields}


MIXED = [
    task("all", "aggregate_results", dependencies=["asked", "summed"]),
    task("made", "command", inputs={"argv": ["printf", "first"]}, parent_id="all"),
    task(
        "asked",
        "both",
        parent_id="all",
        dependencies=["made"],
        params={"input_mappings": {"a": "made.stdout"}},
    ),
    task(
        "summed",
        "python",
        parent_id="all",
        inputs={"function": "builtins:len"},
        dependencies=["asked"],
        params={"input_mappings": {"arguments": "asked.parsedContent"}},
    ),
]


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
    assert flow.root.result["parsedContent"] == ["answer to first", "answer to second"]
    assert [(depth, found.name) for found, depth in flow.walk()] == [
        (0, "asked"),
        (1, "both"),
        (2, "ask"),
        (2, "ask"),
    ]
    assert program_of(flow.root).templates == {"both": 1, "ask": 1}


async def test_params_template_names_one_too_and_a_version_of_it(store: TaskStore) -> None:
    bench = RunsBench(store)
    app = bench.app()
    await register(app, "(template size (x) (length x))")
    await register(app, "(template size (x) (+ 1 (length x)))")

    def sized(version: str) -> dict[str, Any]:
        return task("sized", "template", inputs={"x": [1]}, params={"template": f"size{version}"})

    assert [
        (await ended(bench, app, [sized(version)])).root.result["parsedContent"] for version in ("", "@1")
    ] == [2, 1]
    flow = await ended(bench, app, [task("sized", "size@1", inputs={"x": [1, 2]})])
    assert flow.root.result["parsedContent"] == 2


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


async def test_a_flow_mixes_templates_commands_and_python_and_goes_on_after_any_death(
    store: TaskStore,
) -> None:
    bench = RunsBench(store)
    await register(bench.app(), ASK, BOTH)
    document = MIXED[:3]
    document = [{**MIXED[0], "dependencies": ["asked"]}, *MIXED[1:3]]
    flow = await bench.app().submit(document)
    dies_at, lives = 1, 0
    while await bench.die(flow.root.id, dies_at=dies_at, is_written=bool(dies_at % 2)):
        lives += 1
        dies_at += 1 if lives < 12 else 3
        # What is registered meanwhile does not change what is under way.
        await register(bench.app(), f'(deftask ask ((x string)) :instructions "{lives}: {{{{x}}}}")')
        if (await bench.flow(flow.root.id)).root.status.is_terminal:
            break

    left = await bench.flow(flow.root.id)

    assert left.root.status is Status.COMPLETED
    asked = one(left, "asked")
    first, second = asked.result["parsedContent"]
    pinned = program_of(asked).templates["ask"]
    said = "" if pinned == 1 else f"{pinned - 1}: "
    assert (first, second) == (f"answer to {said}first", f"answer to {said}second")
    assert lives > 3


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
    await register(bench.app(), '(template both ((a string)) (ask "something else"))')
    await remove_template(bench.app(), "ask", is_forced=True)
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

    assert (await bench.flow(root_id)).root.result["parsedContent"] == 1


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
        app, "(template inner (x) (list x 1))", "(template outer (list inner-name inner) (inner2 list))"
        " (template inner2 (x) (inner x))"
    )  # fmt: skip

    result = await arun(registered("outer"), app=app, list="l", inner=2, **{"inner-name": 3})
    await app.stop(grace_seconds=0)

    assert result.value == ["l", 1]


async def test_a_program_may_define_what_is_registered_unless_others_need_that(store: TaskStore) -> None:
    bench = RunsBench(store)
    app = bench.app()
    await register(app, ASK, BOTH)

    own = await arun(f'{ASK} {BOTH} (both "k")', app=app)
    same = await arun(f'{ASK} (both "k")', app=app)
    mine = await arun("(template ask (x) (+ x 1)) (ask 1)", app=app)
    with pytest.raises(InvalidProgram, match="needs the registered one"):
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
    with pytest.raises(InvalidProgram, match="as if it named a version"):
        await register(app, "(template ask@2 (x) x)")
    with pytest.raises(TemplateInUse, match="used by both"):
        await remove_template(app, "ask")
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

    assert result.value == flow.root.result["parsedContent"] == 1


async def test_a_step_of_a_workflow_may_name_a_template(store: TaskStore) -> None:
    bench = RunsBench(store)
    app = bench.app()
    await register(app, ASK, BOTH)
    workflow = Workflow("pair").step(
        "both", output_name="pair", dynamic_input_mappings={"a": "initial_context.a"}
    )

    result = await workflow.arun(app, a="first")
    await app.stop(grace_seconds=0)

    assert result["pair"]["parsedContent"] == ["answer to first", "answer to second"]


async def test_what_may_choose_a_template_gets_all_of_them(store: TaskStore) -> None:
    bench = RunsBench(store, lambda prompt: {"success": True} if prompt == "judge" else prompt)
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
