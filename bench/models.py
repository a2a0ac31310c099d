"""What weft adds to a request to a model, and how many requests it can have open at once.

The model is a scripted one, so that nothing but weft is measured: CPU of `LocalEffects.call_model` against
CPU of the model's own `request` for the same payload; with a budget, and with the conversation of
ten turns. Then as many calls of 100 ms through an evaluated `(map ...)`. The best of each.

    python -m bench.models [--size CALLS]
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from bench.measure import Benchmark, Figure
from weft.effects.local import LocalEffects
from weft.evaluator.budget import Scope
from weft.evaluator.budget_account import ScopeAccount
from weft.evaluator.effects import UNLIMITED, BudgetAccount, ContextPayload, ModelCall, Step, Turn
from weft.evaluator.evaluator import Evaluator
from weft.language.sexp import read_program
from weft.language.source import Source
from weft.language.task_fields import ContextManagement
from weft.llm.payload import HandlerPayload
from weft.llm.protocol import StaticModels
from weft.testing.scripted_model import ScriptedModel

LATENCY_SECONDS = 0.1
PROMPT = "Say in one sentence what a loom is. " * 20


def a_call(turns: int = 0) -> ModelCall:
    """Return a task with a prompt of 700 characters, a system prompt and two inherited values."""
    settings = ContextManagement("full", False, "notes_only", "disabled")
    context = ContextPayload(settings=settings, inherited={"style": "plain", "words": list(range(50))})
    conversation = tuple(Turn(PROMPT, "A loom is a frame for weaving.") for _ in range(turns))
    return ModelCall(prompt=PROMPT, system="You are brief.", context=context, conversation=conversation)


async def cpu_of(act: Callable[[], Awaitable[Any]], options: argparse.Namespace) -> float:
    """Return the CPU seconds of one call, the least over the rounds."""
    best = float("inf")
    for _ in range(options.rounds):
        start = time.process_time()
        for _ in range(options.size):
            await act()
        best = min(best, (time.process_time() - start) / options.size)
    return best


async def overhead(
    what: str,
    options: argparse.Namespace,
    *,
    turns: int = 0,
    account: Callable[[], BudgetAccount] = lambda: UNLIMITED,
) -> Figure:
    """Return what weft adds to a request."""
    model = ScriptedModel(lambda payload: "A loom is a frame for weaving.")
    effects = LocalEffects(models=StaticModels(model))
    call = a_call(turns)
    step = Step("1", call)
    await effects.call_model(step, call, account())
    payload: HandlerPayload = model.payloads[0]

    async def bare() -> None:
        model.payloads.clear()
        await model.request(payload)

    async def whole() -> None:
        model.payloads.clear()
        await effects.call_model(step, call, account())

    alone, ours = await cpu_of(bare, options), await cpu_of(whole, options)
    counting = await cpu_of(lambda: model.count_tokens(payload), options)
    return Figure(
        f"CPU that weft adds to {what}",
        (ours - alone) * 1e6,
        "us",
        f"the bare request ({alone * 1e6:.0f} us)",
        at_most=1_000,
        details=f"{counting * 1e6:.0f} us of these count tokens",
    )


async def concurrent(options: argparse.Namespace, limits: str = "{}") -> Figure:
    """Return how long calls take that wait for 100 ms each, all at once."""
    count, best, cpu = options.size, float("inf"), float("inf")
    calls = f'(map (lambda (n) (get (task :instructions "say {{{{n}}}}") "content")) (range {count}))'
    program = read_program(Source("<bench>", f"(length {limits.format(calls)})"))
    for _ in range(options.rounds):
        model = ScriptedModel(lambda payload: "ok", latency_seconds=LATENCY_SECONDS)
        evaluator = Evaluator(LocalEffects(models=StaticModels(model)))
        start, started = time.perf_counter(), time.process_time()
        assert await evaluator.evaluate(program) == count
        best = min(best, time.perf_counter() - start)
        cpu = min(cpu, time.process_time() - started)
        assert model.most_concurrent == count
    budget = " within a budget" if limits != "{}" else ""
    return Figure(
        f"{count:,} concurrent calls of {LATENCY_SECONDS * 1e3:.0f} ms{budget}",
        best,
        "s",
        at_most=0.5,
        details=f"{best / LATENCY_SECONDS:.1f}x one call, {cpu:.3f} s of CPU",
    )


def measure(options: argparse.Namespace) -> Iterator[Figure]:
    """Yield the overhead of single calls, and the time of many at once."""
    scope = Scope({"tokens": 1e12, "cost": 1e9})
    yield asyncio.run(overhead("one call", options))
    yield asyncio.run(overhead("one call in a budget", options, account=lambda: ScopeAccount(scope, "bench")))
    yield asyncio.run(overhead("one call with a conversation of 10 turns", options, turns=10))
    yield asyncio.run(concurrent(options))
    yield asyncio.run(concurrent(options, "(with-budget (:tokens 1000000000 :cost 1000) {})"))


BENCHMARK = Benchmark("Requests to models", "calls", smallest=5, full=1_000, measure=measure, rounds=5)

if __name__ == "__main__":
    BENCHMARK.run()
