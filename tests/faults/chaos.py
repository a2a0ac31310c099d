"""Three servers of one PostgreSQL, and a seeded series of faults: kills, freezes, networks, clocks."""

import asyncio
import heapq
import itertools
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.command_line import Process
from tests.faults.killable_postgresql import KillablePostgresql
from tests.faults.processes import weft_process
from tests.faults.proxy import DIRECTIONS, Direction, Proxy, proxy_to

CLOCK_OFFSETS = (0.0, 30.0, -30.0)
LEASE_SECONDS = 5
STOP_SECONDS = 15.0
TICK_SECONDS = 0.1

_WAYS: list[tuple[Direction, ...]] = [(), ("to_server",), ("to_client",)]


class Server:
    """One `weft serve` behind a proxy of its own, with a clock of its own."""

    def __init__(
        self, name: str, proxy: Proxy, folder: Path, offset: float, environment: dict[str, str]
    ) -> None:
        self.name = name
        self.proxy = proxy
        self._folder = folder
        self._lives = 0
        self._arguments: dict[str, Any] = {
            "db": proxy.url,
            "cwd": folder,
            "clock_offset_seconds": offset,
            "environment": {"WEFT_LEASE_SECONDS": str(LEASE_SECONDS), **environment},
        }
        self._life = ExitStack()
        self._process: Process | None = None

    @property
    def _log(self) -> Path:
        return self._folder / f"{self.name} {self._lives}.log"

    def start(self) -> None:
        """Start a process; what it says goes to a log of its own."""
        self._lives += 1
        log = self._life.enter_context(self._log.open("wb"))
        process = weft_process("serve", "--no-http", stderr=log, **self._arguments)
        self._process = self._life.enter_context(process)

    def kill(self) -> None:
        self._life.close()
        self._process = None

    def send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def unexpected_exit(self) -> str | None:
        """How the process ended, if it has by itself after it had begun to serve; another one is started."""
        if self._process is None or self._process.poll() is None:
            return None
        said, code = self._log.read_text(), self._process.returncode
        self.kill()
        self.start()
        # One that finds no store when it starts may say so and exit: who started it is there to try again.
        return f"{self.name} exited with {code}: {said[-400:]}" if "serving " in said else None

    def stop(self) -> str | None:
        """Ask the process to end; what is wrong with how it does."""
        self.send(signal.SIGTERM)
        try:
            code = None if self._process is None else self._process.wait(STOP_SECONDS)
        except Exception as error:
            return f"{self.name} did not end: {error}"
        finally:
            self.kill()
        return None if code in (None, 0) else f"{self.name} ended with {code}"


@contextmanager
def three_servers(url: str, folder: Path, environment: dict[str, str]) -> Iterator[list[Server]]:
    """Three running servers; whatever they do, they are gone when the block is left."""
    with ExitStack() as stack:
        servers = []
        for number, offset in enumerate(CLOCK_OFFSETS):
            proxy = stack.enter_context(proxy_to(url))
            server = Server(f"server {number}", proxy, folder, offset, environment)
            stack.callback(server.kill)
            server.start()
            servers.append(server)
        yield servers


class Chaos:
    """A series of faults that a seed decides, and its end."""

    def __init__(self, seed: int, servers: list[Server], postgresql: KillablePostgresql) -> None:
        self._chance = random.Random(seed)
        self._servers = servers
        self._postgresql = postgresql
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._began = time.monotonic()
        self.history: list[str] = []
        self.problems: list[str] = []
        self._faults: list[tuple[int, Callable[[Server], str]]] = [
            (4, self._kill),
            (4, self._freeze),
            (2, self._kill_postgresql),
            (2, self._reset),
            (2, self._blackhole),
            (2, self._delay),
            (1, self._half_close),
            (1, self._refuse),
            (3, self._lose_commits),
        ]

    async def run(self, seconds: float, observe: Callable[[], Any]) -> None:
        """Let faults happen for some time, and look at what is stored in between."""
        until = time.monotonic() + seconds
        next_fault = time.monotonic()
        while time.monotonic() < until:
            if time.monotonic() >= next_fault:
                await asyncio.to_thread(self._strike)
                next_fault = time.monotonic() + self._chance.uniform(0.3, 1.5)
            await self.tick(observe)

    async def tick(self, observe: Callable[[], Any]) -> None:
        """End the faults whose time is over, and look at the servers and the store."""
        while self._later and self._later[0][0] <= time.monotonic():
            await asyncio.to_thread(heapq.heappop(self._later)[2])
        for server in self._servers:
            found = await asyncio.to_thread(server.unexpected_exit)
            if found is not None:
                self.problems.append(found)
        await observe()
        await asyncio.sleep(TICK_SECONDS)

    async def calm(self) -> None:
        """End every fault."""
        for _, _, end in sorted(self._later):
            await asyncio.to_thread(end)
        self._later.clear()
        for server in self._servers:
            server.proxy.heal()

    def _strike(self) -> None:
        weights = [weight for weight, _ in self._faults]
        ((_, fault),) = self._chance.choices(self._faults, weights)
        server = self._chance.choice(self._servers)
        at = time.monotonic() - self._began
        self.history.append(f"{at:6.2f} s  {server.name}: {fault(server)}")

    def _end_after(self, seconds: float, end: Callable[[], None]) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._numbers), end))

    # Faults

    def _kill(self, server: Server) -> str:
        server.kill()
        server.start()
        return "killed and started again"

    def _freeze(self, server: Server) -> str:
        seconds = self._chance.uniform(0.5, 2.0 * LEASE_SECONDS)
        server.send(signal.SIGSTOP)
        self._end_after(seconds, lambda: server.send(signal.SIGCONT))
        return f"frozen for {seconds:.1f} s"

    def _kill_postgresql(self, _server: Server) -> str:
        seconds = self._chance.uniform(0.0, 2.0)
        self._postgresql.kill()
        time.sleep(seconds)
        self._postgresql.start()
        return f"PostgreSQL killed and away for {seconds:.1f} s"

    def _reset(self, server: Server) -> str:
        server.proxy.reset()
        return "connections reset"

    def _blackhole(self, server: Server) -> str:
        seconds = self._chance.uniform(0.5, 2.0 * LEASE_SECONDS)
        directions = self._chance.choice(_WAYS)
        server.proxy.blackhole(*directions)
        self._end_after(seconds, server.proxy.heal)
        return f"network drops everything {' '.join(directions)} for {seconds:.1f} s"

    def _delay(self, server: Server) -> str:
        seconds = self._chance.uniform(0.01, 0.3)
        server.proxy.delay(seconds)
        self._end_after(3.0, server.proxy.heal)
        return f"network delayed by {seconds:.2f} s"

    def _half_close(self, server: Server) -> str:
        direction = self._chance.choice(DIRECTIONS)
        server.proxy.half_close(direction)
        return f"connections half closed {direction}"

    def _refuse(self, server: Server) -> str:
        seconds = self._chance.uniform(0.5, 4.0)
        server.proxy.refuse()
        self._end_after(seconds, server.proxy.heal)
        return f"connections refused for {seconds:.1f} s"

    def _lose_commits(self, server: Server) -> str:
        after, count = self._chance.randrange(4), self._chance.choice([1, 1, 2])
        server.proxy.lose_commits(after=after, count=count)
        return f"replies to {count} commits lost after {after}"
