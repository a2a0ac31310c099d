"""Results of tasks without secrets, whatever their size."""

import threading
from typing import Any

import pytest

from weft.engine import attempt
from weft.engine.attempt import MAX_BYTES_ON_THE_LOOP, redacted
from weft.secrets.registry import redact_json, register

KEY = "sk-live-9fK2mX7qLw3ZrT8vBn5Y"


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each value that was looked through was so on the thread of the event loop."""
    seen: list[bool] = []

    def noted(value: Any) -> Any:
        seen.append(threading.current_thread() is threading.main_thread())
        return redact_json(value)

    monkeypatch.setattr(attempt, "redact_json", noted)
    return seen


async def test_a_small_result(threads: list[bool]) -> None:
    register(KEY, "K")

    assert await redacted({"said": [KEY]}) == {"said": ["[secret K]"]}
    assert threads == [True]


async def test_a_large_result_does_not_hold_the_event_loop_up(threads: list[bool]) -> None:
    register(KEY, "K")
    rows = ["x" * 100] * (MAX_BYTES_ON_THE_LOOP // 100)

    assert await redacted({"rows": [*rows, KEY]}) == {"rows": [*rows, "[secret K]"]}
    assert threads == [False]


async def test_without_secrets_nothing_is_done(threads: list[bool]) -> None:
    result = {"said": ["x"]}

    assert await redacted(result) is result
    assert threads == []
