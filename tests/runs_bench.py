"""A bench for durable programs: a store that may die, models that count, and what is left of a run."""

import inspect
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from tests.engine_bench import QUICK
from weft.app.app import App
from weft.app.programs import RunOptions, load_program
from weft.clock import Clock, SystemClock
from weft.config.settings import Settings
from weft.effects.local import LocalEffects
from weft.evaluator.effects import Effects
from weft.ids import TaskId
from weft.runs.outcome import RunOutcome, outcome_of
from weft.store.errors import StoreError
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.flow import Flow
from weft.testing import models
from weft.testing.in_memory_effects import InMemoryEffects

WRITES = frozenset(
    {
        "operate",
        "advance",
        "write_steps",
        "update_params",
        "report",
        "finish",
        "release",
        "run_flow",
        "end_flow",
    }
)


class MortalStore:
    """A real store that is gone after its n-th write, as it is for a process that is killed there."""

    def __init__(self, store: TaskStore, *, dies_at: int = 0, is_written: bool = True) -> None:
        self._store = store
        self._left = dies_at
        self._is_written = is_written
        self.is_dead = False

    def die(self) -> None:
        """Be gone from now on."""
        self.is_dead = True

    @property
    def as_store(self) -> TaskStore:
        return cast(TaskStore, self)

    def __getattr__(self, method: str) -> Any:
        real = getattr(self._store, method)
        if not inspect.iscoroutinefunction(real):
            return real

        async def call(*arguments: Any, **named: Any) -> Any:
            if self.is_dead:
                raise StoreError("the process is dead")
            if method in WRITES:
                self._left -= 1
                if self._left == 0:
                    self.is_dead = True
                    if self._is_written:
                        await real(*arguments, **named)
                    raise StoreError("the process is dead")
            return await real(*arguments, **named)

        return call


class RunsBench:
    """Runs programs on one store; what models were asked is counted over all lives."""

    def __init__(self, store: TaskStore, answer: Callable[[str], Any] | None = None) -> None:
        self.store = store
        self.is_sqlite = "sqlite" in type(store).__module__
        self.answer = answer or (lambda prompt: f"answer to {prompt}")
        self.asked: Counter[str] = Counter()
        self.tools: Any = None
        self.clock: Clock = SystemClock()
        self.limits = QUICK
        self.settings = Settings(db="unused")
        self.effects: Callable[[], Effects] = self._effects

    def _effects(self) -> Effects:
        def reply(call: Any) -> Any:
            self.asked[call.prompt] += 1
            return self.answer(call.prompt)

        return InMemoryEffects(reply, scripts=lambda run: " ".join(run.argv))

    def with_handler(self, answer: Callable[[Any], Any], *, tools: Any = None) -> None:
        """Ask by way of handler and session, as real models are asked."""

        def reply(payload: Any) -> Any:
            self.asked[payload.messages[-1].content] += 1
            return answer(payload)

        self.effects = lambda: LocalEffects(models=models(reply), tools=tools)

    def app(self, store: TaskStore | None = None) -> App:
        return App(
            store or self.store,
            settings=self.settings,
            limits=self.limits,
            clock=self.clock,
            new_effects=lambda _: self.effects(),
        )

    async def begin(self, text: str, *, app: App | None = None, reuse: bool = True, **inputs: Any) -> TaskId:
        program = load_program(text, RunOptions(reuse=reuse))
        return await (app or self.app()).begin_program(program, inputs, name="run")

    async def run(self, text: str, *, reuse: bool = True, **inputs: Any) -> RunOutcome:
        return await self.go_on(await self.begin(text, reuse=reuse, **inputs))

    async def go_on(self, root_id: TaskId, store: TaskStore | None = None) -> RunOutcome:
        app = self.app(store)
        try:
            await app.resume(root_id)
            await app.wait(root_id)
        finally:
            await app.stop(grace_seconds=0)
        return await outcome_of(self.store, await self.store.get(root_id, owner=EVERYONE))

    async def die(self, root_id: TaskId, *, dies_at: int, is_written: bool = True) -> bool:
        """Run until the n-th write and no further; whether it came to that."""
        return await self.live(root_id, MortalStore(self.store, dies_at=dies_at, is_written=is_written))

    async def live(self, root_id: TaskId, mortal: MortalStore) -> bool:
        """Run until the store is gone; whether it came to that."""
        with suppress(StoreError):
            await self.go_on(root_id, mortal.as_store)
        await self.store.recover(dead=await self.store.workers())
        return mortal.is_dead

    async def flow(self, root_id: TaskId) -> Flow:
        return await self.store.flow_of(root_id, owner=EVERYONE)

    async def tree(self, root_id: TaskId) -> list[tuple[int, str, str]]:
        """Depth, name and status of every record, as the tree shows them."""
        return [(depth, task.name, task.status.value) for task, depth in (await self.flow(root_id)).walk()]
