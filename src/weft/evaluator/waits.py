"""Time limits that count the time in which people are waited for, also while nothing is evaluated."""


class Waits:
    """When a time limit is reached, the waits of the past considered: once, however many waited."""

    __slots__ = ("_is_counting", "_spans", "due")

    def __init__(self, due: float, *, is_bound_elsewhere: bool = False) -> None:
        """`is_bound_elsewhere`: who performs keeps to the limit by himself while there are no waits."""
        self.due = due
        self._is_counting = not is_bound_elsewhere
        self._spans: list[tuple[float, float]] = []
        """From when to when somebody was waited for, in order, without overlap."""

    @property
    def deadline(self) -> float | None:
        """When what is evaluated must be ended; None: it ends by itself."""
        return self.due if self._is_counting else None

    def add(self, begun: float, ended: float) -> None:
        """Count a wait of the past, by any clock, as far as it is not part of others."""
        before = self._seconds()
        spans = sorted([*self._spans, (begun, max(begun, ended))])
        self._spans = spans[:1]
        for start, end in spans[1:]:
            first, last = self._spans[-1]
            if start <= last:
                self._spans[-1] = first, max(end, last)
            else:
                self._spans.append((start, end))
        self.due -= self._seconds() - before
        self._is_counting = True

    def end_by(self, due: float) -> None:
        """Reach the limit then, if not before."""
        self.due = min(self.due, due)

    def _seconds(self) -> float:
        return sum(end - start for start, end in self._spans)
