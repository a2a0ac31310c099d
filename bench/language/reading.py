"""Reading and checking programs of a megabyte; of several shapes, since each is slow in another place.

python -m bench.language.reading
"""

import time

from bench.measure import machine
from weft.language.check import check_program
from weft.language.sexp import read_program
from weft.language.spans import Source
from weft.language.xml import read_xml

SIZE = 1_000_000
ROUNDS = 3

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


def a_program(line: str) -> str:
    """A text of the size, of lines that differ in their numbers."""
    size = len(line.format(100_000, 100_000))
    return "".join(line.format(number, number + 1) for number in range(SIZE // size))


def seconds(text: str, *, is_xml: bool = False) -> tuple[float, float]:
    """Seconds to read a program, and to check it; the best sum of several."""
    source = Source("program", text)
    runs = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        program = read_xml(source, text.encode()) if is_xml else read_program(source)
        was_read = time.perf_counter()
        check_program(program)
        runs.append((was_read - began, time.perf_counter() - was_read))
    return min(runs, key=sum)


def main() -> None:
    """Measure each shape and print the times."""
    print(machine())
    shapes = [(name, a_program(line), False) for name, line in LINES.items()]
    shapes.append(("templates in XML", f"<program>{a_program(XML_LINE)}</program>", True))
    for name, text, is_xml in shapes:
        reading, checking = seconds(text, is_xml=is_xml)
        print(
            f"{name:<22} read {reading:5.2f} s  checked {checking:5.2f} s  both {reading + checking:5.2f} s"
        )


if __name__ == "__main__":
    main()
