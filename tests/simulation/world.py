"""One simulated world: three servers, three clients, somebody who breaks things, and what came of it."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from datetime import timedelta
from random import Random
from typing import Any, TypeVar
from unittest import mock

from msgspec import Struct

from tests.simulation.network import Network, RemoteAccess
from tests.simulation.processes import START, MachineClock, Process, SimulatedLoop, current_process
from tests.simulation.work import Effects, Model, Writer, executors
from weft.app.app import App
from weft.app.programs import RunOptions, load_program
from weft.config.settings import Settings
from weft.engine.limits import EngineLimits
from weft.errors import TransientError, WeftError
from weft.ids import TaskId
from weft.store.protocol import EVERYONE, EventFilter
from weft.store.sqlite.memory import MemoryAccess, MemoryDatabase
from weft.store.sqlite.store import SqliteStore
from weft.tasks.events import Event
from weft.tasks.flow import Flow
from weft.tasks.operations import NoOpenQuestion

T = TypeVar("T")

CLIENTS = 2
FAULTS_SECONDS = 20.0
"""How long things are broken."""
SETTLING_SECONDS = 300.0
"""How long everything may take to end once nothing is broken any more: leases, retries, time limits."""

LIMITS = EngineLimits(
    concurrency=5,
    lease_seconds=8.0,
    heartbeat_seconds=2.0,
    poll_seconds=2.0,
    lookup_seconds=0.5,
    grace_seconds=2.0,
)
SETTINGS = Settings(db=":memory:")


class Findings(Struct):
    """What is left of a world: for invariants, and to be compared with another run of the same seed."""

    trace: list[str]
    flows: list[Flow]
    events: list[Event]
    watched: list[int]
    """The numbers of the events that somebody saw who looked now and then."""
    running: list[TaskId]
    """The flows that were still to be run in the end."""
    repeated: list[str]
    """The model calls that were repeated although their answers were stored."""
    calls: int


class World:
    """Everything that one seed decides."""

    def __init__(self, seed: int, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._chance = Random(seed)
        self._database = MemoryDatabase()
        self._clock = MachineClock(loop)
        """The store's."""
        self._own = SqliteStore(MemoryAccess(self._database, self._clock))
        """A store without faults: for those who look, and as long as it is open the database lives."""
        self._network = Network(Random(seed + 1))
        self._model = Model(Random(seed + 2), self._is_stored)
        self._writer = Writer(Random(seed + 3))
        self._ids = Random(seed + 4)
        self._processes: list[Process] = []
        self._servers: dict[str, tuple[Process, App]] = {}
        self._roots: list[TaskId] = []
        self._programs: dict[TaskId, str] = {}
        """By root, the number of the run, which every prompt of it begins with."""
        self._watched: list[int] = []
        self._is_over = False
        self.trace: list[str] = []

    async def run(self) -> Findings:
        """Live until everything has ended, or nothing happens any more."""
        try:
            await self._live()
            return await self._findings()
        finally:
            self._is_over = True
            for process in self._processes:
                await process.bury()
            await self._own.close()

    async def _live(self) -> None:
        for number in range(self._chance.choice((2, 3))):
            self._start_server(f"server{number}")
        clients = [self._start_client(f"client{number}") for number in range(CLIENTS)]
        watching = self._new_process("watcher")
        watching.start(self._watch(watching))
        await self._break_things()
        self._heal()
        await asyncio.wait(clients)
        for client in clients:
            client.result()
        await self._settle()

    def _note(self, who: str, what: object) -> None:
        self.trace.append(f"{self._loop.time():9.3f} {who}: {what}")

    # Processes

    def _new_process(self, name: str) -> Process:
        process = Process(name, self._loop)
        self._processes.append(process)
        return process

    def _app(self, process: Process) -> App:
        access = RemoteAccess(MemoryAccess(self._database, self._clock), self._network, process, self._loop)
        chance = Random(self._chance.random())
        return App(
            SqliteStore(access),
            settings=SETTINGS,
            new_id=self._new_id,
            limits=LIMITS,
            executors=executors(chance),
            new_effects=lambda _: Effects(self._model, chance, process.clock),
        )

    def _new_id(self) -> TaskId:
        digits = f"{self._ids.getrandbits(128):032x}"
        return TaskId(f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}")

    def _is_stored(self, text: str) -> bool:
        found = self._database.connection.execute(
            "SELECT 1 FROM tasks WHERE status = 'completed' AND instr(result, ?)", (text,)
        )
        return found.fetchone() is not None

    def _start_server(self, name: str) -> None:
        process = self._new_process(name)
        app = self._app(process)
        self._servers[name] = process, app
        process.start(self._serve(process, app))
        self._note(name, "started")

    async def _serve(self, process: Process, app: App) -> None:
        try:
            await app.serve()
        except Exception as error:
            self._note(process.name, f"ended: {error!r}")
        await app.close(grace_seconds=0)
        if not process.is_dead:
            self._loop.call_later(1.0, self._restart, process, context=Context())

    def _restart(self, process: Process) -> None:
        if self._servers[process.name][0] is process and not self._is_over:
            self._start_server(process.name)

    # Clients

    def _start_client(self, name: str) -> asyncio.Task[None]:
        process = self._new_process(name)
        return process.start(self._use(process))

    async def _use(self, process: Process) -> None:
        chance = Random(self._chance.random())
        app = self._app(process)
        actions = _weighted(
            {
                self._submit: 5,
                self._submit_program: 5,
                self._run_here: 2,
                self._schedule: 1,
                self._cancel: 2,
                self._retry: 2,
                self._answer: 4,
                self._copy: 1,
            }
        )
        for _ in range(7):
            await asyncio.sleep(chance.expovariate(0.5))
            action = chance.choice(actions)
            try:
                told = await action(app, chance)
            except WeftError as error:
                told = f"{error.code}: {error.message}"
            self._note(process.name, f"{action.__name__.strip('_')}: {told}")
        await app.close(grace_seconds=0)

    async def _submit(self, app: App, chance: Random) -> Any:
        return self._known(await app.begin(self._writer.flow()))

    async def _submit_program(self, app: App, chance: Random) -> Any:
        text = self._writer.program()
        run = self._writer.run
        root_id = await app.begin_program(
            load_program(text, RunOptions(reuse=chance.random() < 0.8)), {}, name=run
        )
        self._programs[root_id] = run
        return self._known(root_id)

    async def _run_here(self, app: App, chance: Random) -> Any:
        root_id = self._known(await app.begin(self._writer.flow()))
        try:
            async with asyncio.timeout(chance.uniform(1.0, 15.0)):
                await app.wait(root_id)
        except TimeoutError:
            await app.stop(grace_seconds=0.5)
        return root_id

    async def _schedule(self, app: App, chance: Random) -> Any:
        return self._known((await app.submit(self._writer.schedule())).root.id)

    async def _cancel(self, app: App, chance: Random) -> Any:
        flow = await app.flow_of(self._any_root(chance))
        cancelled = await app.cancel(chance.choice([task.id for task in flow]))
        if flow.root.schedule_type is None:
            # What waited for it, and need not have it, can start; but the flow may have been over by then.
            await self._insist(lambda: app.begin(flow.root.id))
        return len(cancelled)

    async def _retry(self, app: App, chance: Random) -> Any:
        root_id = self._any_root(chance)
        if root_id in self._programs:
            return await app.resume(root_id)
        retried = await app.retry(root_id)
        await self._insist(lambda: app.begin(root_id))
        return len(retried)

    async def _answer(self, app: App, chance: Random) -> Any:
        roots = chance.sample(sorted(self._programs), min(len(self._programs), 3))
        questions = [one for root_id in roots for one in await app.questions(root_id)]
        if not questions:
            return "no question"
        question = chance.choice(questions)
        await app.answer(question.id, "yes")
        return question.name

    async def _copy(self, app: App, chance: Random) -> Any:
        root_id = self._any_root(chance)
        if root_id in self._programs:
            self._model.copied.add(self._programs[root_id])
        copied = (await app.copy(root_id)).root.id
        if root_id in self._programs:
            self._programs[copied] = self._programs[root_id]
        return self._known(await self._insist(lambda: app.begin(copied)))

    async def _insist(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do the second of two things, as somebody does who was told that the store is away."""
        while True:
            try:
                return await act()
            except TransientError:
                await asyncio.sleep(1.0)

    def _known(self, root_id: TaskId) -> TaskId:
        self._roots.append(root_id)
        return root_id

    def _any_root(self, chance: Random) -> TaskId:
        if not self._roots:
            raise WeftError("there is no flow yet")
        return chance.choice(self._roots)

    async def _watch(self, process: Process) -> None:
        store = self._app(process).store
        while True:
            await asyncio.sleep(1.0)
            try:
                after = self._watched[-1] if self._watched else 0
                found = await store.events(EventFilter(after=after, limit=50), owner=EVERYONE)
            except WeftError:
                continue
            self._watched += [event.seq for event in found]

    # Faults

    async def _break_things(self) -> None:
        chance = self._chance
        faults = _weighted(
            {self._freeze: 4, self._kill: 3, self._terminate: 2, self._cut_off: 3, self._jump: 3}
        )
        while self._loop.time() < FAULTS_SECONDS:
            await asyncio.sleep(chance.expovariate(0.25))
            fault = chance.choice(faults)
            self._note("world", fault.__name__.strip("_"))
            await fault()

    async def _freeze(self) -> None:
        alive = [process for process in self._processes if not process.is_stopped]
        if not alive:
            return
        victim = self._chance.choice(alive)
        victim.freeze()
        seconds = self._chance.choice((0.3, 2.0, 5.0, 9.0, 20.0))
        self._note("world", f"{victim.name} frozen for {seconds} s")
        self._loop.call_later(seconds, lambda: None if victim.is_dead else victim.thaw())

    async def _kill(self) -> None:
        name = self._chance.choice(sorted(self._servers))
        process = self._servers[name][0]
        process.kill()
        self._note("world", f"{name} killed")
        self._loop.call_later(self._chance.uniform(0.5, 10.0), self._restart, process)

    async def _terminate(self) -> None:
        name = self._chance.choice(sorted(self._servers))
        process, app = self._servers[name]
        if not process.is_stopped:
            process.start(app.stop(grace_seconds=self._chance.choice((0.0, 1.0))))

    async def _cut_off(self) -> None:
        chance = self._chance
        names = sorted({process.name for process in self._processes})
        down = set(names) if chance.random() < 0.3 else set(chance.sample(names, chance.randint(1, 3)))
        self._network.down |= down
        seconds = chance.choice((0.5, 3.0, 8.0))
        self._note("world", f"{sorted(down)} cut off for {seconds} s")
        self._loop.call_later(seconds, self._network.down.difference_update, down)

    async def _jump(self) -> None:
        name, clock = self._chance.choice(
            [("the store", self._clock), *((one.name, one.clock) for one in self._processes)]
        )
        # The lease of a dead worker is not shortened when all who live began after the clock was put back.
        longest = -30 if clock is self._clock else -3600
        seconds = self._chance.choice((longest, -30, -5, 5, 30, 3600))
        clock.offset += timedelta(seconds=seconds)
        self._note("world", f"the clock of {name} jumps by {seconds} s")

    def _heal(self) -> None:
        self._note("world", "healed")
        self._network.heal()
        for process in self._processes:
            if process.is_stopped and not process.is_dead:
                process.thaw()

    # The end

    async def _settle(self) -> None:
        """Answer what is asked until nothing is to be run any more, or time is up."""
        end = self._loop.time() + SETTLING_SECONDS
        app = App(self._own, settings=SETTINGS, new_id=self._new_id)
        while self._loop.time() < end:
            await asyncio.sleep(2.0)
            for task_id in self._open_questions():
                with suppress(NoOpenQuestion):  # its time limit was reached
                    await app.answer(task_id, "at last")
            if not await self._is_busy():
                await asyncio.sleep(3.0)
                return

    def _open_questions(self) -> list[TaskId]:
        query = "SELECT id FROM tasks WHERE status = 'in_progress' AND params ->> '$.step.kind' = 'question'"
        return [row[0] for row in self._database.connection.execute(query)]

    async def _is_busy(self) -> bool:
        # A question that could not be answered is over its time limit: its run is about to go on.
        if self._open_questions() or await self._own.running_flows(owner=EVERYONE):
            return True
        schedules = await self._own.due_schedules(now=START + timedelta(days=1), limit=10)
        return bool(schedules)

    async def _findings(self) -> Findings:
        query = "SELECT id FROM tasks WHERE parent_id IS NULL ORDER BY seq"
        roots = [row[0] for row in self._database.connection.execute(query)]
        flows = [await self._own.flow_of(root_id, owner=EVERYONE) for root_id in roots]
        return Findings(
            trace=self.trace,
            flows=flows,
            events=list(await self._own.events(EventFilter(limit=1_000_000), owner=EVERYONE)),
            watched=self._watched,
            running=list(await self._own.running_flows(owner=EVERYONE)),
            repeated=self._model.repeated,
            calls=self._model.calls,
        )


def _weighted(weights: dict[Callable[..., Awaitable[Any]], int]) -> list[Callable[..., Awaitable[Any]]]:
    return [one for one, weight in weights.items() for _ in range(weight)]


@contextmanager
def _same_every_time(seed: int) -> Iterator[None]:
    """Have what is left to chance decided by the seed; log nothing, for that takes longer than the work."""
    numbers: dict[str, int] = {}

    def worker_id() -> str:
        process = current_process()
        name = "?" if process is None else process.name
        numbers[name] = numbers.get(name, 0) + 1
        return f"{name}.{numbers[name]}"

    before = random.getstate()
    level = logging.root.manager.disable
    random.seed(seed)
    logging.disable(logging.CRITICAL)
    try:
        with mock.patch("weft.engine.worker.new_worker_id", worker_id):
            yield
    finally:
        logging.disable(level)
        random.setstate(before)


def simulate(seed: int) -> Findings:
    """Return what comes of a seed."""
    with _same_every_time(seed), asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, SimulatedLoop)
        return runner.run(World(seed, loop).run())
