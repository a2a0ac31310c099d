"""Adapts functions and classes to executors; synchronous functions run in threads."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

import msgspec

from weft.aio import run_blocking
from weft.executors.protocol import DEFAULT_CANCEL_GRACE_SECONDS, Report, Work, given_cancel_grace_seconds
from weft.tasks.record import ExecutorType, JsonObject

T = TypeVar("T")


async def run_blocking_work(function: Callable[[Work], T], work: Work, *, name: str) -> T:
    """Run a synchronous function in a thread; it can report progress and poll `work.is_cancelled`."""
    has_ended = threading.Event()
    loop = asyncio.get_running_loop()
    threaded_work = msgspec.structs.replace(
        work, report=_make_threadsafe(work.report, loop), is_cancelled=has_ended.is_set
    )
    try:
        return await run_blocking(lambda: function(threaded_work), name=name)
    finally:
        has_ended.set()


class _Done:
    """A completed awaitable: an async caller may await it, a synchronous one may ignore it."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


def _make_threadsafe(report: Report, loop: asyncio.AbstractEventLoop) -> Report:
    async def report_now(fraction: float) -> None:
        await report(fraction)

    def from_thread(fraction: float) -> _Done:
        reporting = report_now(fraction)
        try:
            reported = asyncio.run_coroutine_threadsafe(reporting, loop)
        except RuntimeError:
            reporting.close()  # the loop is closed
            return _Done()
        reported.result()  # wait, so that reports stay in order, do not pile up, and precede the result
        return _Done()

    return from_thread


Perform = Callable[[Work], Awaitable[Any]]


class AdaptedExecutor:
    """Executor made of a function, or of an object with `execute` and perhaps `cancel`."""

    def __init__(
        self,
        executor_id: str,
        body: Callable[..., Any],
        *,
        type: ExecutorType = ExecutorType.LOCAL,  # noqa: A002 - the protocol's word
        summary: str = "",
        input_schema: JsonObject | None = None,
        output_schema: JsonObject | None = None,
        cancel_grace_seconds: float = DEFAULT_CANCEL_GRACE_SECONDS,
        cancel: Callable[..., Any] | None = None,
    ) -> None:
        self.id = executor_id
        self.type = type
        self.summary = summary
        self.input_schema = input_schema
        self.output_schema = output_schema
        self.cancel_grace_seconds = cancel_grace_seconds
        self.cancel = None if cancel is None else _make_async(executor_id, cancel)
        self._perform = _make_async(executor_id, body)

    async def execute(self, work: Work) -> Any:
        return await self._perform(work)


def adapt(
    executor_id: str,
    target: Any,
    *,
    type: ExecutorType | str = ExecutorType.LOCAL,  # noqa: A002 - the protocol's word
    summary: str | None = None,
    input_schema: JsonObject | None = None,
    output_schema: JsonObject | None = None,
) -> AdaptedExecutor:
    """Make an executor of a function, or of a class with `execute`."""
    options: dict[str, Any] = {
        "type": ExecutorType(type),
        "summary": _first_line(target) if summary is None else summary,
        "input_schema": input_schema,
        "output_schema": output_schema,
    }
    if not inspect.isclass(target):
        if not callable(target):
            raise TypeError(f"executor '{executor_id}': {target!r} is neither a function nor a class")
        return AdaptedExecutor(executor_id, target, **options)
    instance: Any = target()
    if not callable(getattr(instance, "execute", None)):
        raise TypeError(f"executor '{executor_id}': {target.__name__} has no method execute")
    for name in ("input_schema", "output_schema"):
        if options[name] is None:
            options[name] = getattr(instance, name, None)
    options["cancel_grace_seconds"] = given_cancel_grace_seconds(instance)
    cancel = getattr(instance, "cancel", None)
    return AdaptedExecutor(
        executor_id, instance.execute, cancel=cancel if callable(cancel) else None, **options
    )


def _make_async(executor_id: str, body: Callable[..., Any]) -> Perform:
    """Return the body as an async function of the work; a synchronous body runs in a thread."""
    arguments = _argument_getter(executor_id, body)
    if inspect.iscoroutinefunction(body):

        async def perform(work: Work) -> Any:
            return await body(*arguments(work))

    else:

        async def perform(work: Work) -> Any:
            value = await run_blocking_work(
                lambda threaded: body(*arguments(threaded)), work, name=f"weft-{executor_id}"
            )
            # A synchronous function may return an awaitable (a partial, a wrapped coroutine).
            return await value if inspect.isawaitable(value) else value

    return perform


def _argument_getter(executor_id: str, body: Callable[..., Any]) -> Callable[[Work], tuple[Any, ...]]:
    """Return a function that gives the arguments of the body: `(inputs)`, `(inputs, work)` or `(work)`."""
    names = [
        parameter.name
        for parameter in inspect.signature(body).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
    ]
    if len(names) == 2:
        return lambda work: (work.inputs, work)
    if names == ["work"]:
        return lambda work: (work,)
    if len(names) == 1:
        return lambda work: (work.inputs,)
    raise TypeError(
        f"executor '{executor_id}' must take (inputs), (inputs, work) or (work), not ({', '.join(names)})"
    )


def _first_line(target: Any) -> str:
    text = inspect.getdoc(target) if inspect.isclass(target) or inspect.isroutine(target) else None
    return (text or "").partition("\n")[0]
