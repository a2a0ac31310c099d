"""What secrets and spans cost: while there are none, with one secret, with ten, and with spans collected.

A secret with signs that JSON, URLs, HTML and shells write otherwise is called hard. The best of each; spans
in a process of their own, where OpenTelemetry is imported only when it is needed.

    python -m bench.redaction [--size BYTES]
"""

import argparse
import timeit
from collections.abc import Callable, Iterator

from bench.measure import Benchmark, Figure, in_own_process
from weft.secrets.registry import Registry
from weft.telemetry.spans import span

RESULT = {"stdout": "hello world", "stderr": "", "exit_code": 0}
LINE = "lorem ipsum dolor sit amet, consectetur\n"
KEY = "ghp_9fK2mX7qLw3ZrT8vBn5Y"
HARD_KEY = "-4Rk9/x+Zq7'Lw\"2\\Tn&é<0>"
"""With signs that are written otherwise in JSON, URLs, HTML and shells: many forms."""


def microseconds(act: Callable[[], object], times: int, rounds: int) -> float:
    """Return the time of one call, the best of the rounds."""
    return min(timeit.repeat(act, number=times, repeat=rounds)) / times * 1e6


def redaction(what: str, registry: Registry, options: argparse.Namespace) -> Iterator[Figure]:
    """Yield what the secrets of a registry cost."""
    text = LINE * (options.size // len(LINE))
    middle = len(text) // 2
    holding = f"{text[:middle]}token: {KEY}\n{text[middle:]}"
    row = {"text": "lorem ipsum dolor sit amet", "key": KEY}
    rows = [{"name": f"row {number}", **row} for number in range(options.size // 77)]
    small = microseconds(lambda: registry.redact_json(RESULT), max(1, options.size // 100), options.rounds)
    yield Figure(f"{what}: a small result", small, "us")
    for name, act in (
        ("of text", lambda: registry.redact(text)),
        ("of text with a secret in it", lambda: registry.redact(holding)),
        ("of JSON with a secret in every row", lambda: registry.redact_json(rows)),
    ):
        yield Figure(
            f"{what}: {options.size / 1e6:g} MB {name}", microseconds(act, 1, options.rounds) / 1e3, "ms"
        )


def a_span() -> None:
    with span("execute_task x", "internal", lambda: {"weft.task.name": "x", "weft.step.key": "1"}) as one:
        one.set({"process.exit.code": 0})


def spans(times: int, rounds: int) -> list[Figure]:
    """Return what a span costs; leaves this process with a provider of spans."""
    found = [("OpenTelemetry not imported", microseconds(a_span, times, rounds))]
    import opentelemetry.trace

    found.append(("no provider set", microseconds(a_span, times, rounds)))
    from opentelemetry.sdk.trace import TracerProvider

    opentelemetry.trace.set_tracer_provider(TracerProvider())
    found.append(("collected", microseconds(a_span, max(1, times // 10), rounds)))
    return [Figure(f"a span, {name}", value, "us") for name, value in found]


def measure(options: argparse.Namespace) -> Iterator[Figure]:
    """Yield the costs."""
    registry = Registry()
    yield from redaction("no secret", registry, options)
    registry.register(KEY, "ONE")
    yield from redaction("one secret", registry, options)
    for number in range(9):
        registry.register(f"sk-{number}{HARD_KEY}", f"KEY{number}")
    yield from redaction("ten secrets, nine of them hard", registry, options)
    yield from in_own_process(spans, max(10, options.size // 10), options.rounds)


BENCHMARK = Benchmark(
    "Secrets and spans", "bytes of text", smallest=1_000, full=1_000_000, measure=measure, rounds=5
)

if __name__ == "__main__":
    BENCHMARK.run()
