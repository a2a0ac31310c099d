"""What is counted: how many of the files are found among the first, and how soon the first of them."""

from collections.abc import Sequence

from bench.retrieval.tasks import Question


class Figures:
    """Recall at 5 and 10 and the mean reciprocal rank, over questions; and the time of an answer."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, float, float]] = []
        self.seconds: list[float] = []

    def add(self, question: Question, found: Sequence[str], seconds: float) -> None:
        """Take in an answer."""
        answers = question.answers
        at_5, at_10 = (len(answers & set(found[:first])) / len(answers) for first in (5, 10))
        places = (place for place, path in enumerate(found, 1) if path in answers)
        self.rows.append((at_5, at_10, 1 / next(places, float("inf"))))
        self.seconds.append(seconds)

    def extend(self, other: "Figures") -> None:
        """Take in those of another tree."""
        self.rows += other.rows
        self.seconds += other.seconds

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def recall_at_5(self) -> float:
        return self._mean(0)

    def _mean(self, column: int) -> float:
        return sum(row[column] for row in self.rows) / max(1, len(self.rows))

    def __str__(self) -> str:
        at_5, at_10, rank = (f"{self._mean(column):.3f}" for column in range(3))
        milliseconds = sorted(self.seconds)[len(self.seconds) // 2] * 1000 if self.seconds else 0.0
        return f"{at_5}, @10 {at_10}, MRR {rank}, {milliseconds:.1f} ms"
