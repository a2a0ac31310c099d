"""Registry of executors by id."""

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, TypeVar

from msgspec import Struct

from weft.errors import EXIT_NOT_FOUND, RequestError
from weft.executors.adapters import adapt
from weft.executors.protocol import Executor, required_cancel_grace_seconds
from weft.tasks.parsing.problems import nearest, shown
from weft.tasks.record import ExecutorType, JsonObject, indexed_method

T = TypeVar("T", bound=Callable[..., Any])

BUILT_IN = "built in"

BUILT_IN_IDS = frozenset(
    {
        "aggregate_results",
        "aider",
        "command",
        "http",
        "noop",
        "python",
        "sleep",
        "system_info",
        "template",
        "workflow_step",
    }
)
"""Ids reserved for built-in executors: of this package, of `weft.integrations` and of `weft.runs`. A list, so
that most processes need not import the executors themselves."""

EXECUTOR_ATTRIBUTE = "__weft_executor__"
"""Attribute that holds the executor of a decorated function or class."""


FindExecutors = Callable[[Collection[str]], Awaitable[Iterable[Executor]]]
"""Returns executors for methods without a registered executor, for instance names of templates."""


class UnknownExecutor(RequestError):
    """No executor has this id."""

    code = "unknown-executor"
    exit_code = EXIT_NOT_FOUND

    def __init__(self, method: str, *, hint: str = "") -> None:
        super().__init__(f"there is no executor '{shown(method)}' (schemas.method){hint}")
        self.method = method
        self.hint = hint


class DuplicateExecutor(RequestError):
    """An executor with this id is already registered."""

    code = "duplicate-executor"

    def __init__(self, executor_id: str, *, source: str) -> None:
        super().__init__(f"executor '{executor_id}' is already registered ({source})")
        self.executor_id = executor_id


class Registered(Struct, frozen=True, kw_only=True):
    """An entry of the registry: an executor, or the error if it could not be loaded."""

    id: str
    source: str
    executor: Executor | None = None
    error: str | None = None


class ExecutorRegistry:
    """Executors by id. A registry includes the executors of its `base`, also those registered later.

    Executors with `reserved` ids cannot be registered. `learn` finds further executors with `find_more`.
    """

    def __init__(
        self,
        base: "ExecutorRegistry | None" = None,
        *,
        reserved: Collection[str] = (),
        find_more: FindExecutors | None = None,
    ) -> None:
        self._base = base
        self._reserved = reserved
        self._find_more = find_more
        self._registered: dict[str, Registered] = {}
        self._methods: frozenset[str] = frozenset()

    def register(self, executor: Executor, *, source: str = "registered") -> None:
        """Add an executor. Raise DuplicateExecutor if its id belongs to another one."""
        if not isinstance(executor.id, str) or not executor.id.strip():
            raise ValueError("an executor's id must be a non-empty string")
        required_cancel_grace_seconds(executor)
        if executor.id in self._reserved:
            raise DuplicateExecutor(executor.id, source=BUILT_IN)
        known = self.find(executor.id)
        if known is not None and known.executor is not None:
            if known.executor is executor:
                return
            raise DuplicateExecutor(executor.id, source=known.source)
        self._registered[executor.id] = Registered(id=executor.id, source=source, executor=executor)
        self._methods |= {indexed_method(executor.id)}

    def add_failure(self, executor_id: str, *, source: str, error: str) -> None:
        """Record an executor that could not be loaded, so that `get` can report the reason."""
        if self.find(executor_id) is None:
            self._registered[executor_id] = Registered(id=executor_id, source=source, error=error)

    def get(self, method: str) -> Executor:
        """Return the executor for `schemas.method`. Raise UnknownExecutor if it is missing or not loaded."""
        found = self.find(method)
        if found is None:
            ids = [registered.id for registered in self.describe() if registered.error is None]
            known = f"known executors are {', '.join(ids)}" if ids else "no executors are registered"
            raise UnknownExecutor(method, hint=nearest(method, ids) or f"; {known}")
        if found.executor is None:
            raise UnknownExecutor(method, hint=f": {found.source} could not be loaded: {found.error}")
        return found.executor

    @property
    def can_learn(self) -> bool:
        """Return True if `learn` can find executors that are not registered."""
        return self._find_more is not None

    async def learn(self, methods: Collection[str]) -> bool:
        """Find and register executors for unknown methods. Return True if one was found."""
        unknown = [method for method in methods if self.find(method) is None]
        if self._find_more is None or not unknown:
            return False
        found = tuple(await self._find_more(unknown))
        for executor in found:
            if self.find(executor.id) is None:  # a concurrent call may have registered it
                self.register(executor, source="library")
        return bool(found)

    @property
    def methods(self) -> frozenset[str]:
        """Return the ids of all executors as `indexed_method` returns them. Fast: every claim needs them."""
        return self._methods if self._base is None else self._methods | self._base.methods

    def list(self) -> tuple[Executor, ...]:
        found = (registered.executor for registered in self.describe())
        return tuple(executor for executor in found if executor is not None)

    def describe(self) -> tuple[Registered, ...]:
        """Return all entries, including executors that could not be loaded, sorted by id."""
        merged = dict(self._registered)
        if self._base is not None:
            merged = {registered.id: registered for registered in self._base.describe()} | merged
        return tuple(merged[executor_id] for executor_id in sorted(merged))

    def executor(
        self,
        executor_id: str,
        *,
        input_schema: JsonObject | None = None,
        output_schema: JsonObject | None = None,
        type: ExecutorType | str = ExecutorType.LOCAL,  # noqa: A002 - the protocol's word
        summary: str | None = None,
    ) -> Callable[[T], T]:
        """Register the decorated function or class, and return it unchanged.

        A function takes `(inputs)`, `(inputs, work)` or `(work)`; an `async` one is awaited, a synchronous
        one runs in a thread. A class has such an `execute`, and may have `cancel(self, work)` (see
        `Cancellable`); it is instantiated once, without arguments. The summary defaults to the first line of
        the docstring.
        """

        def decorate(target: T) -> T:
            adapted = adapt(
                executor_id,
                target,
                type=type,
                summary=summary,
                input_schema=input_schema,
                output_schema=output_schema,
            )
            self.register(adapted, source=f"{target.__module__}.{target.__qualname__}")
            setattr(target, EXECUTOR_ATTRIBUTE, adapted)
            return target

        return decorate

    def find(self, executor_id: str) -> Registered | None:
        """Return the entry with this id, or None."""
        found = self._registered.get(executor_id)
        if found is None and self._base is not None:
            return self._base.find(executor_id)
        return found


decorated = ExecutorRegistry(reserved=BUILT_IN_IDS)
"""The executors registered by `@executor`. It is the base of `default_registry`."""

executor = decorated.executor
