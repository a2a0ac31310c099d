"""The evaluator against a plain tree-walking Lisp (`bench.language.baseline`) on the same programs.

Alternately, the best of each; reading the text is a part of neither. Then effects of 50 ms, all at once.

    python -m bench.language.evaluator [--size TAIL_CALLS]
"""

import argparse
import asyncio
import time
from collections.abc import Iterator
from typing import Any

from bench.language.baseline import Baseline, read
from bench.measure import Benchmark, Figure, seconds_of
from weft.evaluator.effects import UNLIMITED, BudgetAccount, ContextQuery, Step
from weft.evaluator.evaluator import Evaluator
from weft.language.sexp import read_program
from weft.language.source import Source
from weft.testing.in_memory_effects import InMemoryEffects

MOST_EFFECTS = 1_000
LATENCY_SECONDS = 0.05
AT_MOST = 1.5

FIB = "(define fib (lambda (n) (if (< n 2) 1 (+ (fib (- n 1)) (fib (- n 2))))))"
COUNT = "(define count (lambda (n total) (if (= n 0) total (count (- n 1) (+ total 1)))))"
SQUARE = "(define square (lambda (x) (* x x)))"


class SlowMemory(InMemoryEffects):
    """Effects that answer questions to memory after a while."""

    async def get_context(
        self, step: Step, query: ContextQuery, account: BudgetAccount = UNLIMITED
    ) -> dict[str, Any]:
        await asyncio.sleep(LATENCY_SECONDS)
        return {"key": step.key}


async def timed(evaluator: Evaluator, text: str) -> tuple[float, Any]:
    """Return how long a program takes, and its value."""
    program = read_program(Source("<bench>", text))
    start = time.perf_counter()
    value = await evaluator.evaluate(program)
    return time.perf_counter() - start, value


async def compare(definition: str, call: str, rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds of ours and of the baseline, round by round."""
    evaluator, baseline = Evaluator(SlowMemory()), Baseline()
    await timed(evaluator, definition)
    baseline.evaluate(definition)
    expected = baseline.evaluate(call)
    ours, theirs = [], []
    for _ in range(rounds):
        seconds, value = await timed(evaluator, call)
        assert value == expected, value
        ours.append(seconds)
        theirs.append(seconds_of(lambda: baseline.evaluate(call)) - seconds_of(lambda: read(call)))
    return ours, theirs


def measure(options: argparse.Namespace) -> Iterator[Figure]:
    """Yield the ratios to the baseline, and the time of many effects."""
    fib = min(20, options.size.bit_length())
    items = max(1, options.size // 10)
    programs = (
        (f"(fib {fib})", FIB, f"(fib {fib})", AT_MOST),
        (f"loop of {options.size:,} tail calls", COUNT, f"(count {options.size} 0)", AT_MOST),
        (f"map over {items:,} items", SQUARE, f"(length (map square (range {items})))", None),
    )
    for what, definition, call, at_most in programs:
        ours, theirs = asyncio.run(compare(definition, call, options.rounds))
        yield Figure(
            what,
            min(ours) / min(theirs),
            "x",
            "the time of the plain interpreter",
            at_most=at_most,
            details=f"{min(ours):.3f} s to {min(theirs):.3f} s",
        )
    yield asyncio.run(effects(min(MOST_EFFECTS, options.size), options.rounds))


async def effects(count: int, rounds: int) -> Figure:
    """Return how long effects take that wait all at once."""
    evaluator = Evaluator(SlowMemory())
    text = f'(length (map (lambda (n) (get-context :query "q")) (range {count})))'
    seconds = [(await timed(evaluator, text))[0] for _ in range(rounds)]
    what = f"{count:,} effects of {LATENCY_SECONDS * 1e3:.0f} ms at once"
    return Figure(what, min(seconds), "s", at_most=0.15)


BENCHMARK = Benchmark("The evaluator", "tail calls", smallest=64, full=1_000_000, measure=measure)

if __name__ == "__main__":
    BENCHMARK.run()
