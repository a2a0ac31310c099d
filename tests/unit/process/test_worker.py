"""Workers: children that answer requests, and survive neither their socket nor a bad request."""

from weft.process.worker import Worker

START = "import os; from weft.process.worker import serve; "


def test_a_worker_answers_until_it_is_ended() -> None:
    worker = Worker(f"{START} serve(bytes.upper)")

    assert worker.request(b"early") is None
    assert worker.start()
    large = b"a" * 1_000_000
    assert [worker.request(each) for each in (b"one", large)] == [b"ONE", large.upper()]
    assert worker.end() == 0
    assert not worker.is_running
    assert worker.request(b"late") is None


def test_a_request_that_kills_a_worker_has_no_response() -> None:
    worker = Worker(f"{START} serve(lambda request: os._exit(3))")

    assert worker.start()
    assert worker.request(b"one") is None
    assert worker.end() == 3


def test_a_worker_without_work_ends_by_itself() -> None:
    worker = Worker(f"{START} serve(bytes.upper, idle_seconds=0.01)", timeout_seconds=30)

    assert worker.start()
    assert worker._running is not None
    worker._running[0].wait(30)
    assert worker.request(b"one") is None
    assert worker.end() == 0
