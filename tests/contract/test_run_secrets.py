"""Secrets in durable programs: what is found again does not depend on their values, and gives none away."""

from typing import Any

import pytest

from tests.engine_bench import QUICK
from tests.runs_bench import RunsBench
from weft.app.app import App
from weft.app.programs import load_program
from weft.config.settings import Settings
from weft.effects.local import LocalEffects
from weft.secrets.references import KEY, SecretSettings
from weft.store.protocol import TaskStore
from weft.tasks.record import Status, Task
from weft.testing import models

PROGRAM = """(deftask ask (x) :instructions "{{x}}")
(template work (token) (script :argv ("true") :inputs ((token token)) :reuse true))
(begin (work token) (ask token) (system:request_user_input :question "Go on?") (ask "end"))"""


@pytest.fixture
def runs(store: TaskStore) -> RunsBench:
    return RunsBench(store)


@pytest.fixture
def app(runs: RunsBench) -> App:
    def reply(payload: Any) -> str:
        runs.asked[payload.messages[-1].content] += 1
        return "answer"

    settings = Settings(db="unused", secrets=SecretSettings(allow=("MY_TOKEN",)))
    return App(
        runs.store, settings=settings, limits=QUICK, new_effects=lambda _: LocalEffects(models=models(reply))
    )


async def begun(app: App) -> Task:
    """Start a run, and return it when it waits for a person."""
    root_id = await app.begin_program(load_program(PROGRAM), {"token": {KEY: "MY_TOKEN"}}, name="run")
    await app.wait(root_id)
    return await app.get(root_id)


async def test_a_run_goes_on_after_a_secret_was_changed(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "token-number-one-abcdef")
    resting = await begun(app)
    assert resting.status is Status.PENDING, resting.error
    (question,) = await app.questions(resting.id)
    await app.answer(question.id, "yes")
    monkeypatch.setenv("MY_TOKEN", "token-number-two-abcdef")
    await app.begin(resting.id)
    await app.wait(resting.id)
    task = await app.get(resting.id)
    await app.stop(grace_seconds=0)

    assert (task.status, task.error) == (Status.COMPLETED, None)


async def test_digests_do_not_depend_on_the_value_of_a_secret(
    runs: RunsBench, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, found = ("token-number-one-abcdef", "token-number-two-abcdef"), []
    for value in values:
        monkeypatch.setenv("MY_TOKEN", value)
        root = await begun(app)
        digests = await runs.store.digests_of(root.id)
        steps = {task.name: digests[task.id] for task in await runs.flow(root.id) if task.id in digests}
        found.append(steps)
    await app.stop(grace_seconds=0)

    assert {"ask", "work"} <= found[0].keys()
    assert found[0] == found[1]
    # With another value it is another question; and no hash is kept that depends on the value.
    assert [one.reuse for one in found[0].values()] == [None] * len(found[0])
    assert runs.asked == dict.fromkeys(values, 1)
