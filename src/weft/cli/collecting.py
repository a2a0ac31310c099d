"""Spans of what a command does, sent where the environment says; see `weft.telemetry`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collecting() -> Iterator[None]:
    """Collect spans for the time of the block, if an `OTEL_*` variable asks for it; nothing otherwise."""
    if not any(name.startswith("OTEL_") for name in os.environ):
        yield
        return
    # Imported here: nobody else must pay for it.
    from weft.cli.saying import say
    from weft.telemetry.exporting import set_up, shut_down

    hindrance = set_up()
    if hindrance is not None:
        say(hindrance)
    try:
        yield
    finally:
        shut_down()
