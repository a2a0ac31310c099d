"""Synchronous API for scripts and notebooks: an `App` in the event loop of all synchronous calls."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from weft.aio import run_sync
from weft.app.app import App
from weft.engine.limits import EngineLimits
from weft.executors.registry import ExecutorRegistry
from weft.ids import TaskId
from weft.store.models import RegisteredTemplate
from weft.store.protocol import TaskFilter
from weft.tasks.events import Event
from weft.tasks.flow import Flow
from weft.tasks.record import Task

T = TypeVar("T")
P = ParamSpec("P")

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


def _forward(
    method: Callable[Concatenate[App, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["SyncApp", P], T]:
    """Return a method that waits for a method of `App`."""

    @wraps(method)
    def call(self: "SyncApp", /, *arguments: P.args, **options: P.kwargs) -> T:
        return run_sync(lambda: method(self._app, *arguments, **options))

    return call


class SyncApp:
    """The methods of `App`, without `await`."""

    def __init__(self, db: str | Path | None = None, **settings: Any) -> None:
        self._app = run_sync(lambda: App.open(db, **settings))
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        is_interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        self.close(grace_seconds=INTERRUPT_GRACE_SECONDS if is_interrupted else None)

    def close(self, *, grace_seconds: float | None = None) -> None:
        """Stop running tasks and close the store."""
        if not self._is_closed:
            self._is_closed = True
            self._wait(self._app.close(grace_seconds=grace_seconds))

    @property
    def executors(self) -> ExecutorRegistry:
        """Return the executors of this process."""
        return self._app.executors

    submit = _forward(App.submit)
    cancel = _forward(App.cancel)
    retry = _forward(App.retry)
    get = _forward(App.get)
    flow = _forward(App.flow_of)
    copy = _forward(App.copy)
    update = _forward(App.update)

    def run(self, flow: Any) -> Flow:
        """Run a flow until no task of it can start, and return it.

        `flow` is a JSON document, a `Flow`, or the id of a task of a stored flow. An interrupt (Ctrl-C, the
        stop button of a notebook) stops the flow; running it again resumes it.
        """
        root_id = self._wait(self._app.begin(flow))
        try:
            self._wait(self._app.wait(root_id))
        except KeyboardInterrupt:
            self._wait(self._app.stop_flow(root_id))
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

    def tasks(self, **wanted: Any) -> Sequence[Task]:
        """Return tasks, newest first; keywords are fields of `TaskFilter`: `tasks(status=..., limit=...)`."""
        return self._wait(self._app.list(TaskFilter(**wanted))).tasks

    def templates(self, names: Sequence[str] | None = None) -> Sequence[RegisteredTemplate]:
        """Return the registered templates: all, or those with the given names that exist."""
        return self._wait(self._app.library.find_all(names))

    def named_templates(self, names: Sequence[str]) -> dict[str, RegisteredTemplate]:
        """Return the templates of the given names or versions (`review@2`) that exist, by name."""
        return self._wait(self._app.library.find(names))

    def events(self, root_id: TaskId, *, after: int = 0) -> Iterator[Event]:
        """Yield the events of a flow as they happen, until the flow ends or is stopped."""
        stream = self._app.watch(root_id, after=after)
        while (event := self._wait(_next(stream))) is not None:
            yield event

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return run_sync(lambda: work)


async def _next(stream: AsyncIterator[T]) -> T | None:
    return await anext(stream, None)  # StopAsyncIteration cannot be raised across threads
