"""`weft` on a machine whose clock is wrong: `python -m tests.faults.skewed_weft ARGUMENTS`.

WEFT_TEST_CLOCK_OFFSET_SECONDS says by how much. Only the wall clock is wrong, not how fast time passes.
"""

import os
from datetime import UTC, datetime, timedelta

from weft.__main__ import main
from weft.clock import SystemClock

OFFSET = "WEFT_TEST_CLOCK_OFFSET_SECONDS"


def skew(seconds: float) -> None:
    """Shift the clock of this process."""
    offset = timedelta(seconds=seconds)

    def now(_clock: SystemClock) -> datetime:
        return datetime.now(UTC) + offset

    SystemClock.now = now  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    skew(float(os.environ.pop(OFFSET)))
    main()
