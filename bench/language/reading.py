"""Reading and checking programs of a megabyte; of several shapes, since each is slow in another place.

python -m bench.language.reading [--size BYTES]
"""

import argparse
import time
from collections.abc import Iterator

from bench.measure import Benchmark, Figure
from weft.language.check import check_program
from weft.language.sexp import read_program
from weft.language.source import Source
from weft.language.xml import read_xml

GOAL_SIZE = 1_000_000

LINES = {
    "functions": "(define (f{0} x y)\n"
    '  (let ((a (+ x 1)) (b "text")) (if (> a y) (list a b) (f{0} a (- y 1)))))\n',
    "templates": '(deftask t{0} (code) :instructions "Review {{{{code}}}} and be careful")\n(t{0} "a")\n',
    "a chain of functions": "(define (f{0}) (f{1}))\n",
    "unbound names": "(list a{0} b{0})\n",
}
XML_LINE = """<template name="t{0}" params="code">
  <task><instructions>Review {{{{code}}}} and be careful</instructions></task>
</template>
"""


def a_program(line: str, size: int) -> str:
    """Return a text of this size, of lines that differ in their numbers."""
    length = len(line.format(100_000, 100_000))
    return "".join(line.format(number, number + 1) for number in range(max(2, size // length)))


def seconds(text: str, rounds: int, *, is_xml: bool) -> tuple[float, float]:
    """Return the seconds to read a program and to check it; the best sum of several."""
    source = Source("program", text)
    runs = []
    for _ in range(rounds):
        began = time.perf_counter()
        program = read_xml(source, text.encode()) if is_xml else read_program(source)
        was_read = time.perf_counter()
        check_program(program)
        runs.append((was_read - began, time.perf_counter() - was_read))
    return min(runs, key=sum)


def measure(options: argparse.Namespace) -> Iterator[Figure]:
    """Yield the time of each shape."""
    shapes = [(name, a_program(line, options.size), False) for name, line in LINES.items()]
    shapes.append(("templates in XML", f"<program>{a_program(XML_LINE, options.size)}</program>", True))
    for name, text, is_xml in shapes:
        reading, checking = seconds(text, options.rounds, is_xml=is_xml)
        yield Figure(
            f"{name}, {options.size / 1e6:g} MB",
            reading + checking,
            "s",
            at_most=2 if options.size == GOAL_SIZE else None,
            details=f"read {reading:.2f} s, checked {checking:.2f} s",
        )


BENCHMARK = Benchmark("Reading programs", "bytes", smallest=1_000, full=GOAL_SIZE, measure=measure)

if __name__ == "__main__":
    BENCHMARK.run()
