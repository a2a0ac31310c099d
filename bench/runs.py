"""What a durable program costs: steps of a null model, beside the engine's own layers of no-op tasks.

python -m bench.runs [steps]
"""

import asyncio
import sys
import tempfile
import time

from bench.engine.local import run_flow
from bench.measure import machine
from weft.app import App
from weft.collector import rarer_collector
from weft.engine.limits import EngineLimits
from weft.evaluator.effects import ModelCall, Step
from weft.evaluator.errors import TaskFailed
from weft.evaluator.memory_effects import InMemoryEffects
from weft.evaluator.purse import UNLIMITED, Purse
from weft.evaluator.results import TaskFailure, TaskResult
from weft.program_runs import stored_program
from weft.resuming import begin_again

ROUNDS = 3
WIDTH = 100
ASK = '(deftask ask (x) :instructions "{{x}}")'
LAYERS = f"""{ASK}
(define (layers n) (if (= n 0) 0 (begin (map ask (range {WIDTH})) (layers (- n 1)))))
(begin (layers depth) (ask "last"))"""
CHAIN = f"""{ASK}
(define (chain n) (if (= n 0) 0 (begin (ask n) (chain (- n 1)))))
(begin (chain depth) (ask "last"))"""
PARALLEL = f"{ASK} (length (map ask (range depth)))"


class NullModel(InMemoryEffects):
    """Answers at once, and keeps nothing; or fails the last question, as long as it is told to."""

    def __init__(self, *, latency_seconds: float = 0.0) -> None:
        super().__init__()
        self.is_down = False
        self.asked = 0
        self._seconds = latency_seconds

    async def call_model(self, step: Step, call: ModelCall, purse: Purse = UNLIMITED) -> TaskResult:
        self.asked += 1
        if self._seconds:
            await asyncio.sleep(self._seconds)
        if self.is_down and call.prompt == "last":
            raise TaskFailed(TaskFailure("llm_error", "not yet"))
        return TaskResult("ok", "COMPLETE")


async def run_program(text: str, depth: int, model: NullModel, folder: str) -> tuple[float, float, float]:
    """Seconds to run, CPU seconds, and seconds to go on with a run whose last step had failed (else 0)."""
    limits = EngineLimits(concurrency=1000)
    async with await App.open(f"{folder}/weft.db", limits=limits, new_effects=lambda _: model) as app:
        await app.engine()
        began, cpu = time.perf_counter(), time.process_time()
        root_id = await app.begin_program(stored_program(text), {"depth": depth}, name="bench")
        await app.wait(root_id)
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        again = 0.0
        if model.is_down:
            model.is_down, asked = False, model.asked
            began = time.perf_counter()
            await begin_again(app, root_id)
            await app.wait(root_id)
            again = time.perf_counter() - began
            assert model.asked == asked + 1
        assert (await app.get(root_id)).status.value == "completed", await app.get(root_id)
    return took, cpu, again


def measured(text: str, depth: int, *, is_down: bool = False, latency: float = 0.0) -> tuple[float, ...]:
    """The best of several runs."""
    runs = []
    for _ in range(ROUNDS):
        model = NullModel(latency_seconds=latency)
        model.is_down = is_down
        with tempfile.TemporaryDirectory() as folder:
            runs.append(asyncio.run(run_program(text, depth, model, folder)))
    return tuple(min(run[part] for run in runs) for part in range(3))


def main() -> None:
    """Measure and print."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(machine())
    rarer_collector()  # as the commands do
    engine = min(asyncio.run(run_flow("layers", steps))[0] for _ in range(ROUNDS))
    print(f"engine, layers of {steps:,} no-op tasks: {engine:.2f} s")
    for name, text, depth in (("layers", LAYERS, steps // WIDTH), ("chain", CHAIN, steps)):
        took, cpu, again = measured(text, depth, is_down=True)
        print(
            f"program, {name} of {steps:,} steps: {took:.2f} s ({took / engine:.2f}x the engine), "
            f"{took / steps * 1000:.3f} ms a step ({cpu / steps * 1000:.3f} of CPU), goes on in {again:.2f} s"
        )
    took, _, _ = measured(PARALLEL, 1000, latency=0.1)
    print(f"1,000 parallel calls of 100 ms: {took:.2f} s")


if __name__ == "__main__":
    main()
