"""All who ask a provider in one process share its limits: runs, apps and threads."""

import asyncio
import threading
from importlib import import_module
from pathlib import Path

import pytest

from tests.model_payloads import KEY, MODEL_OF, a_payload, served_models, served_settings
from tests.model_server import Exchange, ModelServer, Reaction, fails, says, write_settings
from weft.app.app import App
from weft.app.programs import RunOptions, load_program
from weft.config.sections import ProviderSettings
from weft.ids import TaskId
from weft.llm.errors import ModelError
from weft.llm.models import ConfiguredModels
from weft.llm.providers.rate_limits import ProviderLimits, Timing
from weft.store.protocol import TaskFilter
from weft.tasks.record import Status

THREE_ASKS = '(deftask ask (x) :instructions "{{x}}") (parallel (ask "a") (ask "b") (ask "c"))'


class Counting:
    """Counts the requests that are open at the server, and holds them until they may be answered."""

    def __init__(self) -> None:
        self.open = 0
        self.most = 0
        self.may_answer = threading.Event()

    def reaction(self) -> Reaction:
        answer = says("hello")

        async def react(exchange: Exchange) -> None:
            self.open += 1
            self.most = max(self.most, self.open)
            await asyncio.to_thread(self.may_answer.wait)
            self.open -= 1  # before the answer: the next may come as soon as it is there
            await answer(exchange)

        return react


async def test_two_runs_at_once_have_no_more_requests_open_than_their_provider_allows(
    tmp_path: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_settings(tmp_path, model_server)
    with (tmp_path / "weft.toml").open("a") as file:
        file.write("concurrency = 2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SERVED_KEY", KEY)
    counting = Counting()
    model_server.always(counting.reaction())
    await asyncio.to_thread(import_module, "weft.llm.providers.model")  # takes a second

    async with await App.open(tmp_path / "weft.db") as app:
        program = load_program(THREE_ASKS, RunOptions(reuse=False))
        runs = [await app.begin_program(program, {}, name=name) for name in ("one", "two")]
        waits = asyncio.gather(*(app.wait(root_id) for root_id in runs))
        for root_id in runs:
            await _until_asked(app, root_id, 3)
        await model_server.until(lambda: len(model_server.requests) >= 2)
        counting.may_answer.set()
        await waits
        ended = [(await app.get(root_id)).status for root_id in runs]

    assert ended == [Status.COMPLETED] * 2
    assert (len(model_server.requests), counting.most) == (6, 2)


async def _until_asked(app: App, root_id: TaskId, steps: int) -> None:
    """Wait until so many steps are stored as under way: each is, once it takes longer than a moment."""
    wanted = TaskFilter(status=Status.IN_PROGRESS, name="ask", tree=root_id)
    async for _ in app.watch(root_id):
        if (await app.list(wanted)).total == steps:
            return


def test_requests_of_several_threads_wait_for_each_other() -> None:
    limits = ProviderLimits("acme", ProviderSettings(concurrency=1), Timing())
    counting = threading.Lock()
    most = 0

    async def one() -> None:
        nonlocal most
        async with limits.ticket(1):
            is_alone = counting.acquire(blocking=False)
            most = max(most, 1 if is_alone else 2)
            await asyncio.sleep(0)
            if is_alone:
                counting.release()

    async def many() -> None:
        await asyncio.gather(*(one() for _ in range(50)))

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == 1


def test_a_loop_that_was_closed_at_once_keeps_nobody_waiting() -> None:
    limits = ProviderLimits("acme", ProviderSettings(concurrency=1), Timing())

    async def hold_for_ever() -> None:
        async with limits.ticket(1):
            await asyncio.Event().wait()

    forgotten = asyncio.new_event_loop()
    tasks = [forgotten.create_task(hold_for_ever()) for _ in range(2)]  # one has the place, one waits for it
    forgotten.run_until_complete(asyncio.sleep(0))
    forgotten.close()

    async def next_one() -> str:
        async with asyncio.timeout(30), limits.ticket(1):
            return "through"

    assert asyncio.run(next_one()) == "through"
    assert not any(task.done() for task in tasks)


async def test_what_one_is_told_holds_for_the_next_who_connects(model_server: ModelServer) -> None:
    model_server.script(fails(429, headers={"retry-after": "500"}))
    first, second = served_models(model_server), served_models(model_server)

    with pytest.raises(ModelError, match="status 429"):
        await (await first.find(MODEL_OF["openai"])).request(a_payload())
    with pytest.raises(ModelError, match="asked not to be called for another"):
        await (await second.find(MODEL_OF["openai"])).request(a_payload())
    await first.close()
    await second.close()

    assert len(model_server.requests) == 1


async def test_another_key_is_another_account(model_server: ModelServer) -> None:
    model_server.script(fails(429, headers={"retry-after": "500"}))
    settings = served_settings(model_server)
    first = ConfiguredModels(settings, {"SERVER_KEY": KEY})
    second = ConfiguredModels(settings, {"SERVER_KEY": "sk-another-0123456789"})

    with pytest.raises(ModelError):
        await (await first.find(MODEL_OF["openai"])).request(a_payload())
    reply = await (await second.find(MODEL_OF["openai"])).request(a_payload())
    await first.close()
    await second.close()

    assert reply.text == "hello"
