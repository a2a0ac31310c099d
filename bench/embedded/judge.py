"""An embedded model with the shipped templates: verdicts, picks, tools, functions.

Every answer goes the way of a program's own: template, evaluator, handler, model. Temperature 0.

    python -m bench.embedded.judge [--size ITEMS] [--model MODEL] [--sets SET ...]
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
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
from bench.embedded.models import missing_model, open_models
from bench.measure import Benchmark, Figure, LeftOut, Measured
from weft.app.evaluation import evaluate_async
from weft.config.sections import HandlerSettings
from weft.effects.local import LocalEffects
from weft.evaluator.errors import TaskFailed
from weft.evaluator.tools import Tool, ToolContext, ToolDefinition
from weft.llm.protocol import Models
from weft.llm.shipped_templates import prompt

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

    def __init__(self, models: Models, model: str) -> None:
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
        except TaskFailed as failed:  # one turn only: it has called a tool, and there is no second request
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
    """Return whether the code, run in a process of its own, meets every check."""
    checks = "\n".join(f"assert {check}" for check in item.checks)
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", f"{code}\n{checks}"], capture_output=True, timeout=10, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


async def judge(act: Callable[[Any], Awaitable[tuple[bool, Any]]], items: Sequence[Any]) -> list[Judged]:
    """Judge every item, one after the other."""
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


LEAST = {"verdicts": 17, "picks": 9, "tools": 7, "functions": 5}
"""How many of each whole set are to be right."""
ITEMS: dict[str, Sequence[Any]] = {
    "verdicts": VERDICTS,
    "fresh-verdicts": FRESH_VERDICTS,
    "picks": PICKS,
    "tools": TOOL_CHOICES,
    "functions": FUNCTIONS,
}


async def judge_set(model: str, name: str, items: Sequence[Any]) -> list[Judged]:
    """Judge a model on the items of a set."""
    models = open_models(model)
    judged = Judge(models, f"local:{model}")
    acts: dict[str, Callable[[Any], Awaitable[tuple[bool, Any]]]] = {
        "verdicts": judged.verdict,
        "fresh-verdicts": judged.verdict,
        "picks": judged.pick,
        "tools": judged.tool_choice,
        "functions": judged.function,
    }
    await models.find(f"local:{model}")  # loading it is no part of the first answer
    try:
        return await judge(acts[name], items)
    finally:
        await models.close()


def measure(options: argparse.Namespace) -> Iterator[Measured]:
    """Yield how many items of each set are right."""
    missing = missing_model(options.model)
    if missing is not None:
        yield LeftOut("", missing)
        return
    for name in options.sets:
        items = ITEMS[name][: options.size]
        found = asyncio.run(judge_set(options.model, name, items))
        yield Figure(
            f"{name}, {options.model}",
            sum(item.is_right for item in found),
            f"of {len(items)}",
            at_least=LEAST.get(name) if len(items) == len(ITEMS[name]) else None,
            details=f"{sum(item.seconds for item in found):.0f} s",
        )


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="qwen")
    parser.add_argument("--sets", nargs="+", choices=list(ITEMS), default=list(ITEMS), metavar="SET")


BENCHMARK = Benchmark(
    "Embedded models: judgement",
    "items of each set",
    smallest=1,
    full=20,
    measure=measure,
    rounds=1,
    add_options=add_options,
)

if __name__ == "__main__":
    BENCHMARK.run()
