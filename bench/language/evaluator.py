"""The evaluator against Norvig's lis.py and lispy.py, on the same programs in the same run.

Alternating, best of `ROUNDS`; reading the text is not measured. The loop is compared with lispy.py only,
whose tail calls are proper. Then 1,000 effects of 50 ms at once.

    python -m bench.language.evaluator
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from bench.language import lispy
from bench.measure import machine
from weft.evaluator.effects import ContextQuery, Step
from weft.evaluator.evaluator import Evaluator
from weft.language.sexp import read_program
from weft.language.spans import Source

ROUNDS = 3
EFFECTS = 1_000
LATENCY = 0.05

FIB = "(define fib (lambda (n) (if (< n 2) 1 (+ (fib (- n 1)) (fib (- n 2))))))"
COUNT = "(define count (lambda (n total) (if (= n 0) total (count (- n 1) (+ total 1)))))"
SQUARE = "(define square (lambda (x) (* x x)))"

PROGRAMS: list[tuple[str, str, str, Callable[[str], Any], str]] = [
    ("(fib 20)", FIB, "(fib 20)", lispy.lis, "lis.py"),
    ("(fib 20)", FIB, "(fib 20)", lispy.lispy, "lispy.py"),
    ("loop of 1,000,000 tail calls", COUNT, "(count 1000000 0)", lispy.lispy, "lispy.py"),
    ("map over 100,000 items", SQUARE, "(length (map square (range 100000)))", lispy.lis, "lis.py"),
    ("map over 100,000 items", SQUARE, "(length (map square (range 100000)))", lispy.lispy, "lispy.py"),
]


class SlowMemory:
    """Effects that answer questions to memory after a while, and nothing else."""

    async def get_context(self, step: Step, query: ContextQuery) -> dict[str, Any]:
        await asyncio.sleep(LATENCY)
        return {"key": step.key}

    def log(self, message: str) -> None:
        """Nobody reads it."""


async def timed(evaluator: Evaluator, text: str) -> tuple[float, Any]:
    """How long a program takes, and its value."""
    program = read_program(Source("<bench>", text))
    start = time.perf_counter()
    value = await evaluator.evaluate(program)
    return time.perf_counter() - start, value


async def compare(definition: str, call: str, other: Callable[[str], Any]) -> tuple[list[float], list[float]]:
    """The times of ours and of the other, round by round."""
    evaluator = Evaluator(SlowMemory())  # type: ignore[arg-type]  # no other effect is asked for
    await timed(evaluator, definition)
    other(definition)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        seconds, value = await timed(evaluator, call)
        ours.append(seconds)
        start = time.perf_counter()
        expected = other(call)
        theirs.append(time.perf_counter() - start)
        assert value == expected
    return ours, theirs


async def main() -> None:
    print(machine())
    for what, definition, call, other, name in PROGRAMS:
        ours, theirs = await compare(definition, call, other)
        rounds = " ".join(f"{one:.3f}/{their:.3f}" for one, their in zip(ours, theirs, strict=True))
        print(f"{what}: {min(ours) / min(theirs):.2f}x the time of {name} (rounds, s: {rounds})")
    evaluator = Evaluator(SlowMemory())  # type: ignore[arg-type]
    text = f'(length (map (lambda (n) (get-context :query "q")) (range {EFFECTS})))'
    times = [(await timed(evaluator, text))[0] for _ in range(ROUNDS)]
    rounds = " ".join(f"{one:.3f}" for one in times)
    print(f"{EFFECTS} effects of {LATENCY:g} s at once: {min(times):.3f} s (rounds: {rounds})")


if __name__ == "__main__":
    asyncio.run(main())
