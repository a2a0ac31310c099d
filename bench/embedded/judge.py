"""Judges a model with the shipped templates: `python -m bench.embedded.judge [--model qwen] [SET...]`.

Every answer goes the way of a program's own: template, evaluator, handler, model.
"""

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, cast

from bench.embedded.judged import (
    FILES,
    FRESH_VERDICTS,
    FUNCTIONS,
    PICKS,
    TOOL_CHOICES,
    TOOLS,
    VERDICTS,
    Function,
    Pick,
    ToolChoice,
    Verdict,
)
from bench.measure import machine
from weft.evaluation import evaluate_async
from weft.evaluator.errors import TaskFailed
from weft.evaluator.tools import Tool, ToolContext, ToolDefinition
from weft.llm.local.models import EmbeddedModels
from weft.llm.prompts import prompt
from weft.local_effects import LocalEffects
from weft.model_settings import HandlerSettings

_DECLARATION = re.compile(r"^<\?xml[^>]*\?>\s*")


class Judged(NamedTuple):
    """One item: whether it was right, and what the model said."""

    item: str
    is_right: bool
    said: Any
    seconds: float


class RecordingTool:
    """A tool that keeps what it was called with."""

    has_effects = False

    def __init__(self, definition: ToolDefinition, calls: list[str]) -> None:
        self.definition = definition
        self._calls = calls

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        self._calls.append(self.definition.name)
        return "done"


class RecordingTools:
    """The tools of the judged requests."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._tools = {tool.name: RecordingTool(tool, self.calls) for tool in TOOLS}

    def names(self) -> frozenset[str]:
        return frozenset(self._tools)

    async def find(self, name: str) -> Tool | None:
        return self._tools.get(name)

    async def close(self) -> None:
        return


class Judge:
    """Asks one model."""

    def __init__(self, models: EmbeddedModels, model: str) -> None:
        self._models = models
        self._model = model

    async def verdict(self, item: Verdict) -> tuple[bool, Any]:
        said = await self._ask(prompt("evaluate"), {"assignment": item.task, "output": item.output})
        return said["success"] is item.is_success, said

    async def pick(self, item: Pick) -> tuple[bool, Any]:
        (files,) = (files for files in FILES.values() if item.answer in files)
        described = "\n".join(f"- {name}: {about}" for name, about in files.items())
        template = prompt("pick", choices=list(files))
        said = await self._ask(template, {"question": item.question, "described_choices": described})
        return said["choice"] == item.answer, said

    async def tool_choice(self, item: ToolChoice) -> tuple[bool, Any]:
        names = ", ".join(tool.name for tool in TOOLS)
        template = prompt("use_tools").replace("</system>", f"</system><tools>{names}</tools>")
        tools = RecordingTools()
        said: Any = None
        try:
            said = await self._ask(template, {"request": item.request}, tools)
        except TaskFailed as failed:  # one turn only: it has called a tool and may not go on
            said = failed.error.message if not tools.calls else None
        used = tools.calls[0] if tools.calls else None
        return used == item.tool and (used is not None or bool(said)), used or said

    async def function(self, item: Function) -> tuple[bool, Any]:
        inputs = {"name": item.name, "description": item.description}
        said = await self._ask(prompt("write_function"), inputs)
        return await asyncio.to_thread(passes, said["code"], item), said

    async def _ask(self, template: str, inputs: dict[str, str], tools: RecordingTools | None = None) -> Any:
        arguments = "".join(f'<arg name="{key}">{{{{{key}}}}}</arg>' for key in inputs)
        name = template.partition('<template name="')[2].partition('"')[0]
        text = (
            f'<program>{_DECLARATION.sub("", template)}<call template="{name}">{arguments}</call></program>'
        )
        effects = LocalEffects(
            models=self._models,
            model=self._model,
            tools=tools,
            handler=HandlerSettings(max_turns=1) if tools else None,
        )
        result = await evaluate_async(text, effects=effects, **cast(dict[str, Any], inputs))
        return result.parsed_content if tools is None else result.content


def passes(code: str, item: Function) -> bool:
    """Whether the code, run in a process of its own, meets every check."""
    checks = "\n".join(f"assert {check}" for check in item.checks)
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", f"{code}\n{checks}"], capture_output=True, timeout=10, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


async def judge(act: Callable[[Any], Awaitable[tuple[bool, Any]]], items: Sequence[Any]) -> list[Judged]:
    """Every item, one after the other."""
    found = []
    for item in items:
        began = time.monotonic()
        try:
            is_right, said = await act(item)
        except TaskFailed as failed:
            is_right, said = False, failed.error.message
        found.append(Judged(str(item[0]), is_right, said, time.monotonic() - began))
        mark = "right" if is_right else "WRONG"
        print(f"  {mark} {found[-1].seconds:5.1f}s {item[0][:70]} -> {json.dumps(said)[:300]}", flush=True)
    return found


async def run(model: str, wanted: Sequence[str]) -> dict[str, list[Judged]]:
    """What was found, by set."""
    models = EmbeddedModels()
    judged = Judge(models, model)
    sets: dict[str, tuple[Any, Sequence[Any]]] = {
        "verdicts": (judged.verdict, VERDICTS),
        "fresh-verdicts": (judged.verdict, FRESH_VERDICTS),
        "picks": (judged.pick, PICKS),
        "tools": (judged.tool_choice, TOOL_CHOICES),
        "functions": (judged.function, FUNCTIONS),
    }
    print(f"{model}: {machine()}")
    await models.find(model)
    results = {}
    for name in wanted or sets:
        print(f"{name}:", flush=True)
        act, items = sets[name]
        results[name] = await judge(act, items)
    await models.close()
    for name, found in results.items():
        seconds = sum(item.seconds for item in found)
        print(f"{name}: {sum(item.is_right for item in found)} of {len(found)} right, {seconds:.0f} s")
    return results


def main() -> None:
    arguments = sys.argv[1:]
    model = "local:qwen"
    if arguments[:1] == ["--model"]:
        model = f"local:{arguments[1]}"
        arguments = arguments[2:]
    asyncio.run(run(model, arguments))


if __name__ == "__main__":
    main()
