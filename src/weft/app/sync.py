"""Synchronous API for scripts and notebooks: an `App` on an event loop in its own thread."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from weft.app.app import App
from weft.app.submission import named_templates, task_templates
from weft.engine.limits import EngineLimits
from weft.executors.registry import ExecutorRegistry
from weft.ids import TaskId
from weft.store.models import RegisteredTemplate
from weft.store.protocol import TaskFilter
from weft.tasks.events import Event
from weft.tasks.flow import Flow
from weft.tasks.record import JsonObject, Task

T = TypeVar("T")

INTERRUPT_GRACE_SECONDS = 2.0
"""How long running tasks may continue after Ctrl-C."""


def open_app(
    db: str | Path | None = None,
    *,
    user_id: str | None = None,
    limits: EngineLimits | None = None,
    executors: ExecutorRegistry | None = None,
) -> "SyncApp":
    """Open a store for a script or a notebook; call `close`, or use it in a `with` block."""
    return SyncApp(db, user_id=user_id, limits=limits, executors=executors)


class SyncApp:
    """The methods of `App`, without `await`."""

    def __init__(self, db: str | Path | None = None, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="weft", daemon=True)
        self._thread.start()
        try:
            self._app = self._wait(App.open(db, **settings))
        except BaseException:
            self._stop_loop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        self.close(grace_seconds=INTERRUPT_GRACE_SECONDS if is_interrupted else None)

    def close(self, *, grace_seconds: float | None = None) -> None:
        """Stop running tasks, close the store and end the thread."""
        if self._thread.is_alive():
            try:
                self._wait(self._app.close(grace_seconds=grace_seconds))
            finally:
                self._stop_loop()

    @property
    def executors(self) -> ExecutorRegistry:
        """Return the executors of this process."""
        return self._app.executors

    def submit(self, document: Any) -> Flow:
        """Check and store a flow."""
        return self._wait(self._app.submit(document))

    def run(self, flow: Any) -> Flow:
        """Run a flow until no task of it can start, and return it.

        `flow` is a JSON document, a `Flow`, or the id of a task of a stored flow. An interrupt (Ctrl-C, the
        stop button of a notebook) stops the flow; running it again resumes it.
        """
        root_id = self._wait(self._app.begin(flow))
        try:
            self._wait(self._app.wait(root_id))
        except KeyboardInterrupt:
            self._wait(self._app.store.stop_flow(root_id, owner=self._app.owner))
            raise
        return self.flow(root_id)

    def begin(self, flow: Any) -> TaskId:
        """Start a flow in the background and return the id of its root; `wait` waits for it."""

        async def begin() -> TaskId:
            root_id = await self._app.begin(flow)
            await (await self._app.engine()).join(root_id)
            return root_id

        return self._wait(begin())

    def wait(self, root_id: TaskId) -> Flow:
        """Wait until a flow has ended, and return it."""
        self._wait(self._app.wait(root_id))
        return self.flow(root_id)

    def cancel(self, task_id: TaskId, *, reason: str = "cancelled") -> tuple[TaskId, ...]:
        """Cancel a task and the unfinished tasks of its subtree; return their ids."""
        return self._wait(self._app.cancel(task_id, reason=reason))

    def retry(self, task_id: TaskId) -> tuple[TaskId, ...]:
        """Reset a failed task and the failed tasks of its subtree to pending; return their ids."""
        return self._wait(self._app.retry(task_id))

    def get(self, task_id: TaskId) -> Task:
        return self._wait(self._app.get(task_id))

    def flow(self, task_id: TaskId) -> Flow:
        """Return the flow of a task."""
        return self._wait(self._app.flow_of(task_id))

    def tasks(self, **wanted: Any) -> Sequence[Task]:
        """Return tasks, newest first; keywords are fields of `TaskFilter`: `tasks(status=..., limit=...)`."""
        return self._wait(self._app.list(TaskFilter(**wanted))).tasks

    def templates(self, names: Sequence[str] | None = None) -> Sequence[RegisteredTemplate]:
        """Return the registered templates: all, or those with the given names that exist."""
        return self._wait(task_templates(self._app.store, self._app.owner, names))

    def named_templates(self, names: Sequence[str]) -> dict[str, RegisteredTemplate]:
        """Return the templates of the given names or versions (`review@2`) that exist, by name."""
        return self._wait(named_templates(self._app.store, self._app.owner, names))

    def copy(self, task_id: TaskId, **options: Any) -> Flow:
        """Copy a task and its subtree as a new pending flow; see `App.copy` for the options."""
        return self._wait(self._app.copy(task_id, **options))

    def update(self, task_id: TaskId, fields: JsonObject) -> Task:
        """Set fields of a task and return it."""
        return self._wait(self._app.update(task_id, fields))

    def events(self, root_id: TaskId, *, after: int = 0) -> Iterator[Event]:
        """Yield the events of a flow as they happen, until the flow ends or is stopped."""
        stream = self._app.watch(root_id, after=after)
        while True:
            try:
                yield self._wait(_next(stream))
            except _Ended:
                return

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Ended(Exception):
    """The end of a stream; StopAsyncIteration cannot be raised across threads."""


async def _next(stream: Any) -> Any:
    try:
        return await anext(stream)
    except StopAsyncIteration:
        raise _Ended from None
