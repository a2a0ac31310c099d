"""What weft adds to a request to a model, and how many requests it has under way at once.

The model is a scripted one, so that nothing but weft is measured: CPU of `LocalEffects.call_model` against
CPU of the model's own `request` for the same payload; with a budget, with a tool call, with the conversation
of ten turns. Then 1,000 calls of 100 ms through an evaluated `(map ...)`.

    python -m bench.models
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from bench.measure import machine
from weft.evaluator.budget import Scope
from weft.evaluator.effects import ContextPayload, ModelCall, Step, Turn
from weft.evaluator.evaluator import Evaluator
from weft.evaluator.purse import UNLIMITED, Purse
from weft.evaluator.scope_purse import ScopePurse
from weft.language.sexp import read_program
from weft.language.spans import Source
from weft.language.task_fields import ContextManagement
from weft.llm.given import GivenModels
from weft.llm.payload import HandlerPayload
from weft.llm.scripted import ScriptedModel
from weft.local_effects import LocalEffects

ROUNDS = 5
CALLS = 1_000
LATENCY_SECONDS = 0.1
PROMPT = "Say in one sentence what a loom is. " * 20


def a_call(turns: int = 0) -> ModelCall:
    """A task with a prompt of 700 characters, a system prompt and two inherited values."""
    settings = ContextManagement("full", False, "notes_only", "disabled")
    context = ContextPayload(settings=settings, inherited={"style": "plain", "words": list(range(50))})
    conversation = tuple(Turn(PROMPT, "A loom is a frame for weaving.") for _ in range(turns))
    return ModelCall(prompt=PROMPT, system="You are brief.", context=context, conversation=conversation)


async def cpu_of(act: Callable[[], Awaitable[Any]]) -> float:
    """CPU seconds of one call, the least over the rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(CALLS):
            await act()
        best = min(best, (time.process_time() - start) / CALLS)
    return best


async def overhead(what: str, turns: int, purse: Callable[[], Purse]) -> None:
    """Print what weft adds to a request."""
    model = ScriptedModel(lambda payload: "A loom is a frame for weaving.")
    effects = LocalEffects(models=GivenModels(model))
    call = a_call(turns)
    step = Step("1", call)
    await effects.call_model(step, call, purse())
    payload: HandlerPayload = model.payloads[0]

    async def bare() -> None:
        model.payloads.clear()
        await model.request(payload)

    async def whole() -> None:
        model.payloads.clear()
        await effects.call_model(step, call, purse())

    alone, ours = await cpu_of(bare), await cpu_of(whole)
    counting = await cpu_of(lambda: _counted(model, payload))
    print(
        f"{what}: {(ours - alone) * 1e6:.0f} us of CPU over the bare request ({alone * 1e6:.0f} us); "
        f"of these {counting * 1e6:.0f} us are the model's own counting of tokens (goal: under 1,000)"
    )


async def _counted(model: ScriptedModel, payload: HandlerPayload) -> None:
    await model.count_tokens(payload)


async def concurrent(limits: str) -> None:
    """Print how long 1,000 calls take that wait for 100 ms each."""
    best, cpu = float("inf"), float("inf")
    for _ in range(ROUNDS):
        model = ScriptedModel(lambda payload: "ok", latency_seconds=LATENCY_SECONDS)
        evaluator = Evaluator(LocalEffects(models=GivenModels(model)))
        calls = '(map (lambda (n) (get (task :instructions "say {{n}}") "content")) (range 1000))'
        program = read_program(Source("<bench>", f"(length {limits.format(calls)})"))
        start, started = time.perf_counter(), time.process_time()
        assert await evaluator.evaluate(program) == CALLS
        best = min(best, time.perf_counter() - start)
        cpu = min(cpu, time.process_time() - started)
        assert model.most_under_way == CALLS
    budget = " within a budget" if limits != "{}" else ""
    print(
        f"{CALLS} concurrent calls of {LATENCY_SECONDS * 1e3:.0f} ms{budget}: {best:.3f} s in all, "
        f"{best / LATENCY_SECONDS:.1f}x one call, {cpu:.3f} s of CPU (goal: under 0.5 s)"
    )


async def main() -> None:
    print(machine())
    scope = Scope({"tokens": 1e12, "cost": 1e9})
    await overhead("one call", 0, lambda: UNLIMITED)
    await overhead("one call in a budget", 0, lambda: ScopePurse(scope, "bench"))
    await overhead("one call with a conversation of 10 turns", 10, lambda: UNLIMITED)
    await concurrent("{}")
    await concurrent("(with-budget (:tokens 1000000000 :cost 1000) {})")


if __name__ == "__main__":
    asyncio.run(main())
