"""Time and chance, passed in so that tests need neither."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct


class Timing(Struct, frozen=True, kw_only=True):
    """What retries and limits know of time."""

    now: Callable[[], float] = time.monotonic
    """Seconds that only grow."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    """A number from 0 to 1: it spreads retries, and keeps no secret."""
