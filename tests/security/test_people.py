"""A secret that a program asks a person about, or that a person tells: in no record and no event."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.runs_bench import RunsBench
from weft.app.wiring import open_store
from weft.config.settings import Settings
from weft.effects.local import LocalEffects
from weft.ids import TaskId
from weft.secrets.references import SecretSettings
from weft.secrets.registry import forget_all
from weft.store.protocol import EVERYONE, EventFilter
from weft.tasks.record import Status

TOKEN = "wt-9Qz-x4R7-vK2-mB8Lp0Yd"  # noqa: S105 - it opens nothing
MARK = "[secret DEPLOY_TOKEN]"
INPUTS: dict[str, Any] = {"token": {"$secret": "DEPLOY_TOKEN"}}
ASKS = """(define (ask what) (get (system:request_user_input :question what) "answer"))
(list (ask (string-append "Is it " token "?")) (ask "Which then?"))"""


@pytest.fixture
async def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunsBench]:
    monkeypatch.setattr("weft.runs.questions.QUIET_SECONDS", 0.01)
    monkeypatch.setenv("DEPLOY_TOKEN", TOKEN)
    store = await open_store(Settings(db=str(tmp_path / "weft.db")), must_exist=False)
    bench = RunsBench(store)
    bench.settings = Settings(db="unused", secrets=SecretSettings(allow=("DEPLOY_TOKEN",)))
    bench.effects = LocalEffects
    yield bench
    await store.close()


async def stored(runs: RunsBench, root_id: TaskId) -> str:
    """Everything that the store holds of a run."""
    events = await runs.store.events(EventFilter(tree=root_id), owner=EVERYONE)
    return msgspec.json.encode([list(await runs.flow(root_id)), events]).decode()


async def test_neither_questions_nor_answers_from_elsewhere_tell_it(runs: RunsBench) -> None:
    resting = await runs.run(ASKS, **INPUTS)
    [question] = await runs.app().questions(resting.root_id)
    assert question.inputs == {"question": f"Is it {MARK}?"}
    assert question.name == f"Is it {MARK}?"
    forget_all()  # as in another process, which has run nothing
    answered = (await runs.app().answer(question.id, f"No, {TOKEN} it is not")).question
    assert answered.result == {"answer": f"No, {MARK} it is not"}
    assert (await runs.go_on(resting.root_id)).status is Status.PENDING
    [question] = await runs.app().questions(resting.root_id)
    forget_all()
    await runs.app().answer(question.id, TOKEN)
    outcome = await runs.go_on(resting.root_id)

    assert outcome.result is not None
    assert outcome.result.value == [f"No, {MARK} it is not", MARK]
    assert TOKEN not in await stored(runs, resting.root_id)


async def test_an_answer_at_the_terminal_does_not_tell_it(runs: RunsBench) -> None:
    async def here(question: str) -> str:
        return f"{TOKEN}, of course"

    runs.effects = lambda: LocalEffects(ask_person=here)
    outcome = await runs.run(ASKS, **INPUTS)

    assert outcome.result is not None
    assert outcome.result.value == [f"{MARK}, of course"] * 2
    assert TOKEN not in await stored(runs, outcome.root_id)
