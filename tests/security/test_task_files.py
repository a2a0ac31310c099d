"""No path of a task's files, and no call of a tool, leads out of the roots: 20,000 of them."""

import asyncio
import json
import random
from pathlib import Path

import pytest

from tests.model_calls import a_call, a_step
from tests.security.test_roots import CANARY, UP, folder, payloads
from weft import testing
from weft.config.sections import CommandSettings
from weft.effects.local import LocalEffects
from weft.evaluator.effects import Files, Step, ToolCall
from weft.evaluator.errors import TaskFailed
from weft.llm.protocol import StaticModels
from weft.testing.scripted_model import ScriptedModel

__all__ = ["folder"]  # the fixture

AT_ONCE = 900
"""Paths in one task: most a command may list are 1,000."""

MANY = 20_000


def many_payloads(root: Path) -> list[str]:
    """Return the paths of `test_roots`, and random ones of their parts, some with special characters."""
    rng = random.Random(11)
    parts = [
        *UP,
        "sub",
        "link-out",
        "link-up",
        "loop",
        "outside",
        "secret",
        "root",
        ".",
        "",
        "~",
        "\x00",
        "\n",
    ]
    ends = ["outside/secret", "secret", "link-out/secret", "sub/link-out/secret", "../secret"]

    found = dict.fromkeys(payloads(root))
    while len(found) < MANY:
        middle = "/".join(rng.choice(parts) for _ in range(rng.randint(0, 10)))
        start = rng.choice(["", "/", f"{root}/", f"{root.parent}/"])
        found[f"{start}{middle}/{rng.choice(ends)}"] = None
    return list(found)[:MANY]


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the root, with a file to read, as the working folder."""
    (folder / "sub" / "plain.txt").write_text("plain")
    monkeypatch.chdir(folder)
    return folder


async def test_no_file_path_of_20000_gives_what_is_outside(inside: Path) -> None:
    model = ScriptedModel(["ok"] * 30, features=testing.Features())
    effects = LocalEffects(models=StaticModels(model))
    every = many_payloads(inside)
    warnings: list[str] = []

    for start in range(0, len(every), AT_ONCE):
        paths = ("sub/plain.txt", *every[start : start + AT_ONCE])
        call = a_call(files=Files("literal", paths, optional=tuple(range(1, len(paths)))))
        result = await effects.call_model(a_step(call), call)
        warnings += result.notes["warnings"]

    assert len(every) == MANY
    assert all("plain" in (payload.context or "") for payload in model.payloads)
    assert not any(CANARY in (payload.context or "") for payload in model.payloads)
    assert not any(CANARY in warning for warning in warnings)
    assert len(warnings) == MANY  # none of them names a file that is inside


async def test_no_path_that_a_command_prints_gives_what_is_outside(inside: Path) -> None:
    model = ScriptedModel(["ok"], features=testing.Features())
    effects = LocalEffects(models=StaticModels(model), commands=CommandSettings())
    lines = [path for path in many_payloads(inside) if "\n" not in path and "\x00" not in path][:AT_ONCE]
    (inside / "list.txt").write_text("\n".join([*lines, "sub/plain.txt"]))

    call = a_call(files=Files("command", text="cat list.txt"))
    await effects.call_model(a_step(call), call)

    context = model.payloads[0].context or ""
    assert "plain" in context
    assert CANARY not in context


async def test_no_tool_call_of_20000_gives_what_is_outside(inside: Path) -> None:
    effects = LocalEffects()
    every = many_payloads(inside)
    refused = 0

    async def used(tool: str, arguments: dict[str, object]) -> str:
        call = ToolCall(tool=tool, arguments=arguments)
        try:
            return json.dumps(await effects.call_tool(Step("1", call), call))
        except TaskFailed as error:
            return f"refused {error.message}"

    try:
        for start in range(0, len(every), 50):
            some = every[start : start + 50]
            read = await used("system:read_files", {"paths": ["sub/plain.txt", *some[:49]]})
            assert '"content": "plain"' in read
            assert CANARY not in read
            listed = await asyncio.gather(
                *(used("system:list_directory", {"path": path}) for path in some[:2])
            )
            refused += sum(one.startswith("refused") for one in listed)
            assert not any(CANARY in one for one in listed)
    finally:
        await effects.close()
    assert refused > 100


@pytest.mark.parametrize("source", ["description", "context_description"])
@pytest.mark.parametrize("text", [CANARY, "secret outside", "../secret", "link-out/secret", "/etc/passwd"])
async def test_no_description_gives_what_links_of_the_root_lead_to(
    inside: Path, source: str, text: str
) -> None:
    model = ScriptedModel(["ok"], features=testing.Features())
    effects = LocalEffects(models=StaticModels(model))
    call = a_call(files=Files(source, text=text))

    result = await effects.call_model(a_step(call), call)
    await effects.close()

    given = result.notes.get("context", {}).get("given", [])
    assert {one["path"] for one in given} <= {"sub/plain.txt"}
    assert CANARY not in (model.payloads[0].context or "").replace(text, "")
