"""What secrets and spans cost: while there are none, with one secret, with ten, and with spans collected.

python -m bench.redaction
"""

import timeit
from collections.abc import Callable

from bench.measure import machine
from weft.secrets.registry import Registry
from weft.telemetry.spans import span

RESULT = {"stdout": "hello world", "stderr": "", "exit_code": 0}
MEGABYTE = "lorem ipsum dolor sit amet, consectetur\n" * 26_000
KEY = "ghp_9fK2mX7qLw3ZrT8vBn5Y"
HOLDING = MEGABYTE[:500_000] + f"token: {KEY}\n" + MEGABYTE[500_000:]
ROWS = [
    {"name": f"row {number}", "text": "lorem ipsum dolor sit amet", "key": KEY} for number in range(13_000)
]
"""A megabyte as JSON, with a secret in every row."""
HARD_KEY = "-4Rk9/x+Zq7'Lw\"2\\Tn&é<0>"
"""With signs that are written otherwise in JSON, URLs, HTML and shells: many forms."""


def microseconds(act: Callable[[], object], times: int) -> float:
    """The best of five."""
    return min(timeit.repeat(act, number=times, repeat=5)) / times * 1e6


def redaction(what: str, registry: Registry) -> None:
    small = microseconds(lambda: registry.redact_json(RESULT), 10_000)
    large = microseconds(lambda: registry.redact(MEGABYTE), 3) / 1e3
    holding = microseconds(lambda: registry.redact(HOLDING), 3) / 1e3
    rows = microseconds(lambda: registry.redact_json(ROWS), 3) / 1e3
    print(f"{what:<30} a small result {small:8.2f} us   a megabyte of text {large:8.2f} ms", end="")
    print(f"   with the secret in it {holding:8.2f} ms   a megabyte of JSON full of it {rows:8.2f} ms")


def a_span() -> None:
    with span("execute_task x", "internal", lambda: {"weft.task.name": "x", "weft.step.key": "1"}) as one:
        one.set({"process.exit.code": 0})


def main() -> None:
    """Print the costs."""
    print(machine())
    registry = Registry()
    redaction("no secret", registry)
    registry.register(KEY, "ONE")
    redaction("one secret", registry)
    for number in range(9):
        registry.register(f"sk-{number}{HARD_KEY}", f"KEY{number}")
    redaction("ten secrets, nine of them hard", registry)
    print(f"a span, OpenTelemetry not imported {microseconds(a_span, 100_000):6.2f} us")
    import opentelemetry.trace

    print(f"a span, no provider set            {microseconds(a_span, 100_000):6.2f} us")
    from opentelemetry.sdk.trace import TracerProvider

    opentelemetry.trace.set_tracer_provider(TracerProvider())
    print(f"a span, collected                  {microseconds(a_span, 10_000):6.2f} us")


if __name__ == "__main__":
    main()
