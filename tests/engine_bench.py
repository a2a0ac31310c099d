"""A bench for engines: a store, executors that a test makes up, and engines that end with the test."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from tests.builders import NOON, a_flow
from weft.engine.engine import Engine
from weft.engine.limits import EngineLimits
from weft.executors.builtin import built_in_registry
from weft.executors.protocol import ExecutionFailed, Work
from weft.executors.registry import ExecutorRegistry
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.flow import Flow
from weft.tasks.operations import SubmitFlow
from weft.tasks.record import JsonObject

QUICK = EngineLimits(
    concurrency=10,
    heartbeat_seconds=0.05,
    poll_seconds=0.02,
    lookup_seconds=0.05,
    lease_seconds=60,
    grace_seconds=0.1,
)

Body = Callable[[Work], Awaitable[Any]]


class Bench:
    """A store, a registry to put executors in, and engines that end with the test."""

    def __init__(self, store: TaskStore) -> None:
        self.store = store
        self.executors: ExecutorRegistry = built_in_registry()
        self._engines: list[Engine] = []

    def executor(self, name: str, body: Body) -> None:
        async def run(inputs: JsonObject, work: Work) -> Any:
            return await body(work)

        self.executors.executor(name)(run)

    async def engine(self, limits: EngineLimits = QUICK) -> Engine:
        engine = Engine(self.store, self.executors, limits=limits, chance=lambda: 0.5)
        self._engines.append(engine)
        return await engine.__aenter__()

    async def submit(self, *tasks: dict[str, Any] | str) -> Flow:
        flow = a_flow(*tasks)
        return await self.store.operate(SubmitFlow(flow, NOON, is_run=True), owner=EVERYONE)

    async def run(self, *tasks: dict[str, Any] | str, limits: EngineLimits = QUICK) -> Flow:
        flow = await self.submit(*tasks)
        async with asyncio.timeout(30):
            await (await self.engine(limits)).run(flow.root.id)
        return await self.read(flow)

    async def read(self, flow: Flow) -> Flow:
        return await self.store.flow_of(flow.root.id, owner=EVERYONE)

    async def close(self) -> None:
        for engine in self._engines:
            await engine.stop(grace_seconds=0)


def task(name: str, method: str, *dependencies: Any, **fields: Any) -> dict[str, Any]:
    return {"name": name, "schemas": {"method": method}, "dependencies": list(dependencies), **fields}


def statuses(flow: Flow) -> dict[str, str]:
    return {one.name: one.status.value for one in flow}


async def fail(work: Work) -> None:
    raise ExecutionFailed("it broke")


class Stubborn:
    """An executor that does not heed its cancellation, until it is released."""

    cancel_grace_seconds = 0.05

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.is_released = asyncio.Event()

    async def execute(self, inputs: JsonObject, work: Work) -> JsonObject:
        self.began.set()
        while not self.is_released.is_set():
            try:
                await self.is_released.wait()
            except asyncio.CancelledError:
                continue
        return {"late": True}

    def register(self, bench: Bench, name: str = "stubborn") -> None:
        bench.executors.executor(name)(type("Registered", (), {"__new__": lambda cls: self}))


def actions(records: Iterable[logging.LogRecord]) -> list[str]:
    return [getattr(record, "action", "") for record in records]
