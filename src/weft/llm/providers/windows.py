"""How much was used in the last minute: any sixty seconds hold no more than the limit."""

from collections import deque

WINDOW_SECONDS = 60.0


class Use:
    """An amount that was taken at some time; what it really was is known later."""

    __slots__ = ("amount", "at")

    def __init__(self, at: float, amount: float) -> None:
        self.at = at
        self.amount = amount


class Window:
    """Counts uses of the last sixty seconds against a limit.

    A bucket that fills up steadily would let twice the limit through in the first minute, and providers that
    count by the minute would refuse half of it.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._uses: deque[Use] = deque()
        self._sum = 0.0

    def wait_seconds(self, amount: float, now: float) -> float:
        """How long until that much may be used; what is larger than the limit has to be alone."""
        self._forget(now)
        too_much = self._sum + min(amount, self._limit) - self._limit
        if too_much <= 0:
            return 0.0
        for use in self._uses:
            too_much -= use.amount
            if too_much <= 0:
                return use.at + WINDOW_SECONDS - now
        return 0.0

    def take(self, amount: float, now: float) -> Use:
        """Count a use."""
        use = Use(now, amount)
        self._uses.append(use)
        self._sum += amount
        return use

    def settle(self, use: Use, amount: float) -> None:
        """Count what was really used in place of what was expected."""
        if self._uses and use.at >= self._uses[0].at:
            self._sum += amount - use.amount
        use.amount = amount

    def _forget(self, now: float) -> None:
        while self._uses and self._uses[0].at + WINDOW_SECONDS <= now:
            self._sum -= self._uses.popleft().amount
        if not self._uses:
            self._sum = 0.0  # sums of fractions do not come back to nothing by themselves
