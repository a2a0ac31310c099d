"""Evaluating programs in tests."""

import asyncio
from collections.abc import Mapping
from typing import Any

from weft.evaluator.budget import EvaluationLimits
from weft.evaluator.effects import (
    UNLIMITED,
    BudgetAccount,
    ContextQuery,
    Effects,
    ModelCall,
    ScriptOutcome,
    ScriptRun,
    Step,
    ToolCall,
)
from weft.evaluator.errors import TaskFailed
from weft.evaluator.evaluator import Evaluator
from weft.evaluator.results import TaskResult
from weft.language.diagnostics import InvalidProgram
from weft.language.sexp import read_program
from weft.language.source import Source


class MemoryOnly(Effects):
    """Effects for pure programs: memory answers with the key of the step, after `turns` turns of the loop.

    `turns` are taken from the number in the query, so that a test decides the order of the answers.
    """

    def __init__(self) -> None:
        self.began: list[str] = []
        self.ended: list[str] = []
        self.cancelled: list[str] = []
        self.messages: list[str] = []

    async def get_context(
        self, step: Step, query: ContextQuery, account: BudgetAccount = UNLIMITED
    ) -> dict[str, Any]:
        self.began.append(step.key)
        word, _, turns = (query.query or "").partition(" ")
        try:
            if word == "forever":
                await asyncio.Event().wait()
            for _ in range(int(turns) if turns.isascii() and turns.isdigit() else 0):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled.append(step.key)
            raise
        if word == "bug":
            raise RuntimeError("a bug of the effect")
        self.ended.append(step.key)
        return {"key": step.key, "word": word}

    async def call_model(self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED) -> TaskResult:
        usage = {"input_tokens": 60, "output_tokens": 40, "cost": 0.5}
        return TaskResult(content=call.prompt, status="COMPLETE", notes={"usage": usage})

    async def run_script(self, step: Step, run: ScriptRun) -> ScriptOutcome:
        return ScriptOutcome(stdout="", stderr="", exit_code=0)

    async def call_tool(self, step: Step, call: ToolCall, account: BudgetAccount = UNLIMITED) -> Any:
        return list(call.positional)

    def log(self, message: str) -> None:
        self.messages.append(message)


def an_evaluator(effects: MemoryOnly | None = None, **limits: Any) -> Evaluator:
    return Evaluator(effects or MemoryOnly(), limits=EvaluationLimits(**limits))


async def value_of(
    text: str,
    bindings: Mapping[str, Any] | None = None,
    *,
    effects: MemoryOnly | None = None,
    **limits: Any,
) -> Any:
    return await an_evaluator(effects, **limits).evaluate(read_program(Source("<test>", text)), bindings)


async def outcome_of(text: str, **limits: Any) -> Any:
    """Return the value of a program, or `error: code` if it is invalid or fails."""
    try:
        return await value_of(text, **limits)
    except InvalidProgram as error:
        return f"error: {error.found[0].code}"
    except TaskFailed as error:
        return f"error: {error.problem.code}"
