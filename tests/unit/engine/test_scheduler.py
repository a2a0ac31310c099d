"""What goes on failing is tried ever more rarely, and told of now and then."""

from datetime import timedelta

from tests.builders import NOON
from weft.engine.scheduler import FIRING_BACKOFF, FiringFailures
from weft.ids import TaskId

A, B = TaskId("a"), TaskId("b")
SECOND = timedelta(seconds=1)


def tries(failures: FiringFailures, seconds: int) -> tuple[list[int], list[int]]:
    """Return the seconds at which a task that always fails is tried, and at which that is logged."""
    tried, told = [], []
    for second in range(seconds):
        now = NOON + second * SECOND
        if not failures.is_waiting(A, now):
            tried.append(second)
            if failures.add(A, now):
                told.append(second)
    return tried, told


def test_the_wait_doubles_up_to_a_minute_and_the_log_hears_of_it_once_a_minute() -> None:
    tried, told = tries(FiringFailures(), 250)

    assert tried == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]
    assert told == [0, 63, 123, 183, 243]


def test_one_task_does_not_keep_another_waiting() -> None:
    failures = FiringFailures()
    failures.add(A, NOON)

    assert failures.is_waiting(A, NOON)
    assert not failures.is_waiting(B, NOON)


def test_after_a_success_everything_is_forgotten() -> None:
    failures = FiringFailures()
    tries(failures, 100)
    failures.forget(A)

    assert tries(failures, 4) == ([0, 1, 3], [0])


def test_only_what_is_still_tried_is_remembered() -> None:
    failures = FiringFailures()
    failures.add(A, NOON)
    failures.add(B, NOON)
    failures.keep_only({B})

    assert not failures.is_waiting(A, NOON)
    assert failures.is_waiting(B, NOON)


def test_a_clock_that_was_put_back_does_not_prolong_the_wait() -> None:
    failures = FiringFailures()
    failures.add(A, NOON)

    assert not failures.is_waiting(A, NOON - FIRING_BACKOFF.cap * SECOND)
