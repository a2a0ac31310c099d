"""Bounds of subtasks: depth, cycles, what a whole chain may use, and who stops it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.subtasks import PROGRAM, World, error_in, heard, spawn
from weft.evaluator.budget import EvaluationLimits
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.llm.payload import HandlerPayload, UserMessage

CATS = {"topic": "cats"}

DIG = '(deftask dig (level) :instructions "Dig to {{level}}." :tools ("system:spawn_subtask") %s)'


def digs(payload: HandlerPayload) -> Any:
    """Goes one level deeper, and passes on what comes of it."""
    if heard(payload):
        return heard(payload)[-1].content
    return digs_on(payload)


def digs_on(payload: HandlerPayload) -> Any:
    """Goes one level deeper, and never gives up."""
    first = payload.messages[0]
    assert isinstance(first, UserMessage)
    level = int(first.content.removeprefix("Dig to ").removesuffix("."))
    return spawn("dig", inputs={"level": level + 1 + len(heard(payload))})


@pytest.mark.parametrize(
    ("option", "request_depth", "limit"),
    [("", None, 5), (":max-depth 2", None, 2), (":max-depth 7", None, 7), (":max-depth 2", 9, 2), ("", 3, 3)],
)
async def test_subtasks_nest_five_levels_unless_it_is_said_otherwise(
    tmp_path: Path, option: str, request_depth: int | None, limit: int
) -> None:
    def answer(payload: HandlerPayload) -> Any:
        said = digs(payload)
        if isinstance(said, str) or request_depth is None or payload.messages[0].content != "Dig to 0.":
            return said
        return spawn("dig", inputs={"level": 1}, max_depth=request_depth)

    world = World(tmp_path, answer)

    await world.run(f"{DIG % option} (dig 0)")

    (reason,) = world.refusals()
    assert f"deeper than {limit} levels" in reason
    refused = next(one for one in world.model.payloads if heard(one) and heard(one)[-1].is_error)
    assert refused.messages[0].content == f"Dig to {limit}."
    details = error_in(refused)["details"]
    assert details["nestingDepth"] == limit + 1
    assert details["subtaskError"]["resource"] == "depth"
    assert details["subtaskError"]["metrics"] == {"used": limit + 1, "limit": limit}


async def test_max_depth_of_a_composite_task_is_that_of_the_tasks_inside(tmp_path: Path) -> None:
    world = World(tmp_path, digs)

    await world.run(f"{DIG % ''} (sequential :max-depth 1 (dig 0))")

    (reason,) = world.refusals()
    assert "deeper than 1 levels" in reason


async def test_the_same_work_further_up_in_the_chain_is_a_cycle(tmp_path: Path) -> None:
    program = """
    (deftask ping (n (style "plain")) :instructions "Ping {{n}} {{style}}." :tools ("system:spawn_subtask"))
    (deftask pong (n) :instructions "Pong {{n}}." :tools ("system:spawn_subtask"))
    (ping 1)"""
    world = World(
        tmp_path,
        {
            "ping": [spawn("pong", inputs={"n": 1}), "ping ends"],
            "pong": [spawn("ping", inputs={"n": 1, "style": "plain"}), "pong ends"],
        },
    )

    assert (await world.run(program)).content == "ping ends"
    told = next(one for one in world.model.payloads if heard(one) and heard(one)[-1].is_error)
    error = error_in(told)["details"]["subtaskError"]
    assert error["reason"] == "execution_halted"
    assert error["details"]["cycle"] == ["ping", "pong", "ping"]
    assert world.statuses() == [("1/s2", "started"), ("1/s2", "completed")]


async def test_the_same_template_with_other_inputs_is_none(tmp_path: Path) -> None:
    world = World(tmp_path, {"boss": [spawn("boss", inputs={"goal": "b"}), "inner", "outer"]})

    assert (await world.run(f'{PROGRAM} (boss "a")')).content == "outer"
    assert world.refusals() == []


@pytest.mark.parametrize(
    ("limits", "resource", "turns"),
    [
        (EvaluationLimits(subtask_turns=30), "turns", 31),
        (EvaluationLimits(subtasks=7), "subtasks", 100),
    ],
)
async def test_models_that_never_give_up_are_stopped_together(
    tmp_path: Path, limits: EvaluationLimits, resource: str, turns: int
) -> None:
    world = World(tmp_path, digs_on)

    with pytest.raises(TaskFailed) as stopped:
        await world.run(f"{DIG % ''} (dig 0)", limits)

    error = stopped.value.error
    assert isinstance(error, TaskFailure)
    assert error.reason == "subtask_failure"
    assert error.details is not None
    assert error.details["subtaskError"]["resource"] == resource
    assert error.details["subtaskRequest"]["name"] == "dig"
    assert len(world.model.payloads) <= turns
    assert "the chain of subtasks was stopped" in error.message


async def test_a_program_may_catch_that_and_go_on(tmp_path: Path) -> None:
    world = World(tmp_path, digs_on)
    program = f"{DIG % ''} (try (dig 0) (catch e (get-in e (list :notes :error :reason))))"

    assert await world.run(program, EvaluationLimits(subtasks=3)) == "subtask_failure"


async def test_the_budget_around_the_parent_pays_for_its_subtasks(tmp_path: Path) -> None:
    long = "word " * 2_000
    world = World(tmp_path, {"boss": [spawn(inputs={"topic": long}), "never"], "explain": "x"})
    program = f'{PROGRAM} (try (with-budget (:tokens 2500) (boss "a")) (catch e (get e :notes)))'

    error = (await world.run(program))["error"]

    assert (error["type"], error["resource"]) == ("RESOURCE_EXHAUSTION", "tokens")
    assert [payload.metadata.template for payload in world.model.payloads] == ["boss"]


async def test_a_budget_inside_the_template_is_its_own_affair(tmp_path: Path) -> None:
    program = f"""{PROGRAM}
    (template careful (topic) (with-budget (:calls 1) (list (explain topic) (explain topic))))
    (boss "a")"""
    request = spawn("careful", inputs=CATS)
    world = World(tmp_path, {"boss": [request, "I went on."], "explain": "x"})

    assert (await world.run(program)).content == "I went on."
    details = error_in(world.model.payloads[-1])["details"]
    assert details["subtaskError"]["resource"] == "calls"


def stalling(answers: dict[str, Any], begun: asyncio.Event) -> Any:
    """Return a model that responds at once, except to `explain`, and a sleep that never ends for it."""

    async def sleep(_: float) -> None:
        if waiting:
            begun.set()
            await asyncio.Event().wait()

    waiting: list[HandlerPayload] = []
    left = {name: list(said) for name, said in answers.items()}

    def answer(payload: HandlerPayload) -> Any:
        if payload.metadata.template == "explain":
            waiting.append(payload)
            return "never said"
        return left[payload.metadata.template or ""].pop(0)

    return {"answers": answer, "latency_seconds": 1.0, "sleep": sleep}


async def test_the_whole_chain_has_a_time_limit(tmp_path: Path) -> None:
    world = World(tmp_path, **stalling({"boss": [spawn(inputs=CATS)]}, asyncio.Event()))

    with pytest.raises(TaskFailed) as stopped:
        await world.run(f'{PROGRAM} (boss "a")', EvaluationLimits(subtask_seconds=0.05))

    error = stopped.value.error
    assert isinstance(error, TaskFailure)
    assert error.details is not None
    assert error.details["subtaskError"]["reason"] == "execution_timeout"
    assert world.statuses()[-1] == ("1/s2", "failed")


async def test_a_parent_that_is_cancelled_takes_its_subtask_along(tmp_path: Path) -> None:
    begun = asyncio.Event()
    world = World(tmp_path, **stalling({"boss": [spawn(inputs=CATS)]}, begun))

    running = asyncio.ensure_future(world.run(f'{PROGRAM} (boss "a")'))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert [payload.metadata.template for payload in world.model.cancelled] == ["explain"]
    assert world.statuses() == [("1/s2", "started"), ("1/s2", "cancelled")]
