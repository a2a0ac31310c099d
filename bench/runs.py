"""What a durable program costs: steps of a null model, beside the engine's own layers of no-op tasks.

On SQLite; the best of each.

    python -m bench.runs [--size STEPS]
"""

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bench.engine.local import run
from bench.measure import Benchmark, Figure
from weft.app.app import App
from weft.app.programs import load_program
from weft.engine.limits import EngineLimits
from weft.evaluator.effects import UNLIMITED, BudgetAccount, ModelCall, Step
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure, TaskResult
from weft.gc_tuning import tune_collector
from weft.testing.in_memory_effects import InMemoryEffects

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
    """Answers at once, and keeps nothing; or fails the last question while it `is_down`."""

    def __init__(self, *, latency_seconds: float = 0.0) -> None:
        super().__init__()
        self.is_down = False
        self.asked = 0
        self._seconds = latency_seconds

    async def call_model(self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED) -> TaskResult:
        self.asked += 1
        if self._seconds:
            await asyncio.sleep(self._seconds)
        if self.is_down and call.prompt == "last":
            raise TaskFailed(TaskFailure("llm_error", "not yet"))
        return TaskResult("ok", "COMPLETE")


class Ran(NamedTuple):
    """Seconds of a run, its CPU seconds, and seconds to resume it after its last step had failed."""

    seconds: float
    cpu: float
    resumed: float


async def run_program(text: str, depth: int, model: NullModel, folder: str) -> Ran:
    """Run a program to its end; when the model is down for its last step, resume it then."""
    limits = EngineLimits(concurrency=1000)
    async with await App.open(f"{folder}/weft.db", limits=limits, new_effects=lambda _: model) as app:
        await app.engine()
        began, cpu = time.perf_counter(), time.process_time()
        root_id = await app.begin_program(load_program(text), {"depth": depth}, name="bench")
        await app.wait(root_id)
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        resumed = 0.0
        if model.is_down:
            model.is_down, asked = False, model.asked
            began = time.perf_counter()
            await app.resume(root_id)
            await app.wait(root_id)
            resumed = time.perf_counter() - began
            assert model.asked == asked + 1
        assert (await app.get(root_id)).status.value == "completed", await app.get(root_id)
    return Ran(took, cpu, resumed)


def best_of(rounds: int, text: str, depth: int, *, is_down: bool = False, latency: float = 0.0) -> Ran:
    """Return the least of each time of several runs."""
    runs = []
    for _ in range(rounds):
        model = NullModel(latency_seconds=latency)
        model.is_down = is_down
        with tempfile.TemporaryDirectory() as folder:
            runs.append(asyncio.run(run_program(text, depth, model, folder)))
    return Ran(*(min(times) for times in zip(*runs, strict=True)))


def measure(options: argparse.Namespace) -> Iterator[Figure]:
    """Yield what steps cost, how long it takes to resume a run, and many calls at once."""
    steps, rounds = options.size, options.rounds
    with collecting_rarely():
        engine = min(run("layers", steps) for _ in range(rounds)).seconds
        yield Figure(f"the engine's own layers of {steps:,} no-op tasks", engine, "s")
        for name, text, depth in (("layers", LAYERS, steps // WIDTH), ("chain", CHAIN, steps)):
            ran = best_of(rounds, text, depth, is_down=True)
            yield from _figures(name, steps, ran, engine)
        calls = min(1_000, steps)
        parallel = best_of(rounds, PARALLEL, calls, latency=0.1).seconds
        yield Figure(f"{calls:,} parallel calls of 100 ms", parallel, "s", at_most=0.5)


def _figures(name: str, steps: int, ran: Ran, engine: float) -> Iterator[Figure]:
    is_layers = name == "layers"
    yield Figure(
        f"a program of {steps:,} steps in {name}",
        ran.seconds / engine,
        "x",
        "the time of the engine's layers",
        at_most=2 if is_layers else None,
        details=f"{ran.seconds:.2f} s",
    )
    yield Figure(
        f"a step of the {name}",
        ran.seconds / steps * 1e3,
        "ms",
        at_most=0.2 if is_layers else None,
        details=f"{ran.cpu / steps * 1e3:.3f} ms of CPU",
    )
    yield Figure(f"resuming the {name} after their last step failed", ran.resumed, "s", at_most=2)


def workload(size: int) -> None:
    """Run layers and a chain of this many steps, resume each, and run as many calls at once."""
    with collecting_rarely():
        best_of(1, LAYERS, size // WIDTH, is_down=True)
        best_of(1, CHAIN, size, is_down=True)
        best_of(1, PARALLEL, size)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Collect garbage as rarely as the commands do."""
    thresholds, was_frozen = gc.get_threshold(), gc.get_freeze_count()
    tune_collector()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if not was_frozen:
            gc.unfreeze()


BENCHMARK = Benchmark(
    "Durable programs", "steps", smallest=WIDTH, full=10_000, measure=measure, workload=workload
)

if __name__ == "__main__":
    BENCHMARK.run()
