"""Child processes that answer requests, and survive neither their socket nor a bad request."""

from weft.process.worker import ChildProcess

START = "import os; from weft.process.worker import serve; "


def test_a_child_process_answers_until_it_is_ended() -> None:
    child = ChildProcess(f"{START} serve(bytes.upper)")

    assert child.request(b"early") is None
    assert child.start()
    large = b"a" * 1_000_000
    assert [child.request(each) for each in (b"one", large)] == [b"ONE", large.upper()]
    assert child.end() == 0
    assert not child.is_running
    assert child.request(b"late") is None


def test_a_request_that_kills_a_child_process_has_no_response() -> None:
    child = ChildProcess(f"{START} serve(lambda request: os._exit(3))")

    assert child.start()
    assert child.request(b"one") is None
    assert child.end() == 3


def test_a_child_process_without_work_ends_by_itself() -> None:
    child = ChildProcess(f"{START} serve(bytes.upper, idle_seconds=0.01)", timeout_seconds=30)

    assert child.start()
    assert child._running is not None
    child._running[0].wait(30)
    assert child.request(b"one") is None
    assert child.end() == 0
