"""Three servers under a seeded series of faults: every task ends once, and no finished call is repeated."""

import asyncio
import os
import random
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.faults.chaos import Chaos, Server, three_servers
from tests.faults.killable_postgresql import KillablePostgresql
from tests.model_server import Exchange, ModelServer, says, write_settings
from tests.postgresql_server import fresh_schema
from weft.app.app import App
from weft.app.programs import RunOptions, load_program
from weft.errors import TransientError
from weft.ids import TaskId
from weft.runs.program import as_params
from weft.store.protocol import EventFilter, TaskFilter
from weft.tasks.record import Status, Task

SEED = "WEFT_TEST_CHAOS_SEED"
SEEDS = [int(os.environ[SEED])] if SEED in os.environ else list(range(1, 13))

PROGRAM = """
(deftask ask (x) :instructions "{{x}}")
(template pair (a b) (list (ask a) (ask b)))
(define (rounds n) (if (= n 0) "done" (begin (ask (format "{} round {}" name n)) (rounds (- n 1)))))
(begin
  (rounds count)
  (map ask (list (format "{} m1" name) (format "{} m2" name) (format "{} m3" name)))
  (script :argv ("echo" "hello"))
  (pair (format "{} x" name) (format "{} y" name))
  (try (with-budget (:calls 1) (begin (ask (format "{} within" name)) (ask (format "{} beyond" name))))
    (catch e "spent")))
"""
CALLS_BESIDE_ROUNDS = 6


def a_program(name: str, rounds: int) -> list[dict[str, Any]]:
    params = as_params(load_program(PROGRAM, RunOptions(reuse=False)).stored)
    inputs = {"name": name, "count": rounds}
    return [{"name": name, "inputs": inputs, "schemas": {"method": "template"}, "params": params}]


def a_flow_of_sleeps(name: str, layers: int, chance: random.Random) -> list[dict[str, Any]]:
    """Layers of three tasks, each waiting for two of the layer before; some are commands."""
    tasks: list[dict[str, Any]] = [{"name": name}]
    for number in range(3 * layers):
        layer, place = divmod(number, 3)
        waits = [f"t{(layer - 1) * 3 + (place + step) % 3}" for step in (0, 1)] if layer else [name]
        is_command = number % 7 == 3
        tasks.append(
            {
                "name": f"t{number}",
                "schemas": {"method": "command" if is_command else "sleep"},
                "inputs": {"argv": ["true"]}
                if is_command
                else {"seconds": round(chance.uniform(0.1, 0.8), 2)},
                "dependencies": waits,
            }
        )
    return tasks


async def respond(exchange: Exchange) -> None:
    """Answer as slowly as a quick model."""
    prompt = prompt_of(exchange.request.body)
    await asyncio.sleep(0.1 + len(prompt) % 5 / 10)
    await says(f"answer to {prompt}")(exchange)


def prompt_of(body: Any) -> str:
    return str(body["messages"][-1]["content"])


class Finished:
    """The prompts whose responses were seen in the store, and when that was."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.seen: dict[str, float] = {}

    async def observe(self) -> None:
        with suppress(TransientError):
            completed = await self._app.list(TaskFilter(status=Status.COMPLETED, limit=100_000))
            for task in completed.tasks:
                prompt = (task.params or {}).get("prompt", {}).get("prompt")
                if prompt is not None:
                    self.seen.setdefault(prompt, time.monotonic())

    def repeated(self, server: ModelServer) -> list[str]:
        """Return the prompts that were sent again after their responses had been stored."""
        asked = [(prompt_of(request.body), request.at) for request in server.requests]
        return [prompt for prompt, at in asked if at > self.seen.get(prompt, at)]


async def problems_of(app: App, root_ids: list[TaskId]) -> list[str]:
    """Return what is wrong with flows and runs that should have ended."""
    problems: list[str] = []
    for root_id in root_ids:
        flow = await app.flow_of(root_id)
        problems += [f"{flow.root.name}: {told(one)}" for one in flow if not is_right(one)]
        events = await app.events(EventFilter(tree=root_id, limit=1_000_000))
        ends = Counter(event.task_id for event in events if event.type.value == "task.completed")
        problems += [
            f"{flow.root.name}: {task_id} completed {count} times"
            for task_id, count in ends.items()
            if count != 1
        ]
    return problems


def is_right(task: Task) -> bool:
    is_beyond_budget = (
        task.status is Status.FAILED and task.parent_id is not None and "step" in (task.params or {})
    )
    return task.status is Status.COMPLETED or is_beyond_budget


def told(task: Task) -> str:
    return f"{task.name} {task.id} is {task.status.value}: {task.error}"


async def all_over(app: App, root_ids: list[TaskId]) -> bool:
    with suppress(TransientError):
        summaries = [await app.summary(root_id) for root_id in root_ids]
        return all(summary.is_over for summary in summaries) and not await app.store.running_flows(
            owner=app.owner
        )
    return False


async def ride_out(
    seed: int, *, seconds: float, url: str, folder: Path, postgresql: KillablePostgresql, server: ModelServer
) -> None:
    """Let three servers work on flows and programs under faults, and say what broke."""
    write_settings(folder, server)
    server.always(respond)
    chance = random.Random(seed)
    layers, rounds = round(seconds / 0.9), round(seconds / 0.6)
    async with await App.open(url) as app:
        root_ids = [await app.begin(a_program(f"run {number}", rounds)) for number in range(4)]
        root_ids += [await app.begin(a_flow_of_sleeps(f"flow {n}", layers, chance)) for n in range(3)]
        finished = Finished(app)
        with three_servers(url, folder, {"SERVED_KEY": "sk-test-0123456789abcdef"}) as servers:
            chaos = Chaos(seed, servers, postgresql)
            await chaos.run(seconds, finished.observe)
            await chaos.calm()
            deadline = time.monotonic() + seconds + 90
            while not await all_over(app, root_ids) and time.monotonic() < deadline:
                await chaos.tick(finished.observe)
            problems = chaos.problems + await stopped(servers)
        await finished.observe()
        problems += await problems_of(app, root_ids)
    problems += [f"asked again after it had finished: {prompt}" for prompt in finished.repeated(server)]
    assert len(finished.seen) == 4 * (rounds + CALLS_BESIDE_ROUNDS) or problems, "some calls never finished"
    reproduce = f"{SEED}={seed} .venv/bin/python -m pytest -m slow tests/faults/test_chaos.py"
    assert not problems, "\n".join(["", *problems, "", *chaos.history, f"again with: {reproduce}"])


async def stopped(servers: list[Server]) -> list[str]:
    found = await asyncio.gather(*(asyncio.to_thread(server.stop) for server in servers))
    return [problem for problem in found if problem is not None]


@pytest.fixture
def url(killable_server: KillablePostgresql) -> str:
    return fresh_schema(killable_server.url)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_three_servers_ride_out_half_a_minute_of_faults(
    seed: int, url: str, killable_server: KillablePostgresql, model_server: ModelServer, tmp_path: Path
) -> None:
    await ride_out(
        seed, seconds=30, url=url, folder=tmp_path, postgresql=killable_server, server=model_server
    )


async def test_three_servers_ride_out_some_seconds_of_faults(
    url: str, killable_server: KillablePostgresql, model_server: ModelServer, tmp_path: Path
) -> None:
    await ride_out(5, seconds=8, url=url, folder=tmp_path, postgresql=killable_server, server=model_server)
