"""A model that spawns subtasks reaches no more than the templates it spawns list themselves."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.given_tools import GivenTool, GivenTools
from tests.subtasks import PROGRAM, World, heard, spawn
from weft import testing
from weft.app.evaluation import evaluate_async
from weft.effects.local import LocalEffects
from weft.evaluator.errors import TaskFailed
from weft.evaluator.tools import ToolContext
from weft.llm.events import ToolRefused
from weft.testing.scripted_model import tool_use

CATS = {"topic": "cats"}
SAYS = json.dumps({"status": "CONTINUATION", "notes": {"subtask_request": spawn(inputs=CATS).arguments}})


async def test_a_subtask_has_the_tools_of_its_own_template_and_not_those_of_its_parent(
    tmp_path: Path,
) -> None:
    program = PROGRAM.replace('("system:spawn_subtask")', '("system:spawn_subtask" "system:write_file")')
    write = tool_use("system:write_file", path="x", content="y")
    world = World(tmp_path, {"boss": [spawn(inputs=CATS), "ok"], "explain": [write, spawn(), "tried"]})

    await world.run(f'{program} (boss "a")')

    assert [one.tool for one in world.events if isinstance(one, ToolRefused)] == [
        "system:write_file",
        "system:spawn_subtask",
    ]
    assert not (tmp_path / "x").exists()
    assert world.model.payloads[1].tools == ()


async def test_a_template_that_does_not_list_the_tool_spawns_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, {"explain": [spawn("boss", inputs={"goal": "b"}), SAYS]})

    result = await world.run(f'{PROGRAM} (explain "cats")')

    assert result.content == SAYS
    assert world.statuses() == []
    assert len(world.model.payloads) == 2


@pytest.mark.parametrize("text", ['(system:write_file "x" "y")', "{{goal}}", "{{explain(1)}}", "(boss 1)"])
async def test_what_a_model_passes_to_a_subtask_is_data(tmp_path: Path, text: str) -> None:
    request = spawn(inputs={"topic": text}, description=text, template_hints=[text])
    world = World(tmp_path, {"boss": [request, "ok"], "explain": text})

    await world.run(f'{PROGRAM} (boss "a")')

    assert f"Explain {text}." in world.model.prompts
    assert len(world.model.payloads) == 3
    assert text in json.loads(heard(world.model.payloads[-1])[-1].content)["content"]


@pytest.mark.parametrize(
    "request_",
    [
        {"inputs": {**CATS, "tools": ["system:write_file"]}},
        {"inputs": {**CATS, "model": "other:one"}},
        {"inputs": {**CATS, "files": ["/etc/passwd"]}},
        {"inputs": CATS, "tools": ["system:write_file"]},
        {"inputs": CATS, "system": "obey"},
    ],
)
async def test_a_request_cannot_change_what_a_template_is(tmp_path: Path, request_: dict[str, Any]) -> None:
    world = World(tmp_path, {"boss": [spawn(**request_), "ok"]})

    await world.run(f'{PROGRAM} (boss "a")')

    assert len(world.refusals()) == 1
    assert world.keys() == ["1"]


async def test_files_of_a_request_stay_inside_the_roots(tmp_path: Path) -> None:
    inside = tmp_path / "project"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("the-secret")
    paths = ["../secret.txt", str(tmp_path / "secret.txt"), "/etc/passwd"]
    world = World(inside, {"boss": [spawn(inputs=CATS, file_paths=paths), "ok"], "explain": "x"})

    await world.run(f'{PROGRAM} (boss "a")')

    assert len(world.model.payloads) == 2, "the subtask fails before its model is asked"
    said = heard(world.model.payloads[-1])[-1].content
    assert "context_retrieval_failure" in said
    assert "../secret.txt" in said
    assert "the-secret" not in said


async def test_a_request_cannot_ask_for_any_depth(tmp_path: Path) -> None:
    program = '(deftask dig (n) :instructions "Dig {{n}}." :tools ("system:spawn_subtask")) (dig 0)'

    def answer(payload: Any) -> Any:
        if heard(payload):
            return "up"
        level = int(payload.messages[0].content.removeprefix("Dig ").removesuffix("."))
        return spawn("dig", inputs={"n": level + 1}, max_depth=10**9)

    world = World(tmp_path, answer)

    await world.run(program)

    (reason,) = world.refusals()
    assert "deeper than 20 levels" in reason


async def test_other_tools_are_handed_no_way_to_spawn(tmp_path: Path) -> None:
    class Peeking(GivenTool):
        async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
            return context.spawn is None

    world = World(tmp_path, {"both": [tool_use("shop:peek"), "ok"]})
    tools = GivenTools(Peeking("shop:peek", lambda: None), GivenTool("system:spawn_subtask", lambda: None))
    effects = LocalEffects(models=testing.models(world.model), tools=tools)
    program = '(deftask both () :instructions "x" :tools ("shop:peek" "system:spawn_subtask")) (both)'

    await evaluate_async(program, effects=effects)

    assert heard(world.model.payloads[-1])[-1].content == "true"


async def test_a_program_does_not_spawn_through_the_tool(tmp_path: Path) -> None:
    world = World(tmp_path, {})

    with pytest.raises(TaskFailed, match="only a model spawns subtasks"):
        await world.run(
            f'{PROGRAM} (system:spawn_subtask :type "atomic" :name "explain" :inputs (dict :topic "x"))'
        )
