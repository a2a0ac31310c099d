"""The registry, the decorator, and what it makes of functions and classes."""

import asyncio
import threading
from typing import Any

import pytest

from tests.executor_work import Reports, run, work_of
from weft.config.settings import ProjectSettings
from weft.effects.tools import project_registry
from weft.executors import DuplicateExecutor, ExecutionFailed, ExecutorRegistry, UnknownExecutor, Work
from weft.executors.builtin import built_in_registry, default_registry
from weft.executors.invoke import invoke_executor
from weft.executors.registry import BUILT_IN, BUILT_IN_IDS, decorated, executor
from weft.executors.simple import Noop
from weft.tasks.record import ExecutorType


@pytest.fixture
def registry() -> ExecutorRegistry:
    return ExecutorRegistry()


def test_an_executor_is_found_by_its_id(registry: ExecutorRegistry) -> None:
    noop = Noop()
    registry.register(noop)

    assert registry.get("noop") is noop
    assert registry.list() == (noop,)


def test_ids_are_unique(registry: ExecutorRegistry) -> None:
    registry.register(Noop())

    with pytest.raises(DuplicateExecutor, match="'noop' is already registered"):
        registry.register(Noop())


@pytest.mark.parametrize("seconds", ["5", None, float("nan"), -1, True])
def test_a_time_to_let_go_that_is_no_number_of_seconds_is_refused(
    registry: ExecutorRegistry, seconds: Any
) -> None:
    made = type("Slow", (), {"cancel_grace_seconds": seconds, "execute": lambda self, inputs: None})

    with pytest.raises(TypeError, match="executor 'slow': cancel_grace_seconds must be a number of seconds"):
        registry.executor("slow")(made)
    assert registry.find("slow") is None


def test_an_unknown_method_is_named_with_the_nearest_known() -> None:
    with pytest.raises(UnknownExecutor, match=r"'comand' .*did you mean 'command'\?") as caught:
        built_in_registry().get("comand")

    assert caught.value.method == "comand"


def test_an_unknown_method_like_none_lists_them_all(registry: ExecutorRegistry) -> None:
    registry.register(Noop())

    with pytest.raises(UnknownExecutor, match=r"'web_crawler' .*known executors are noop"):
        registry.get("web_crawler")


def test_the_built_in_executors_are_those_whose_ids_are_reserved() -> None:
    registry = project_registry(ProjectSettings())

    made = {found.id for found in registry.describe() if found.source == BUILT_IN}
    assert made | {"template"} == BUILT_IN_IDS  # that one needs a store: the app adds it


@pytest.mark.parametrize("executor_id", sorted(BUILT_IN_IDS))
def test_nobody_takes_the_id_of_a_built_in_executor(executor_id: str) -> None:
    with pytest.raises(DuplicateExecutor):

        @executor(executor_id)
        async def own(inputs: dict[str, Any]) -> None: ...


def test_the_default_registry_has_what_is_decorated_also_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decorated, "_registered", {})
    registry = default_registry()

    @executor("later")
    async def later(inputs: dict[str, Any]) -> None: ...

    assert registry.get("later").id == "later"
    assert "later" in [entry.id for entry in registry.describe()]


@pytest.mark.parametrize("executor_id", ["", "  "])
def test_an_id_is_not_empty(registry: ExecutorRegistry, executor_id: str) -> None:
    with pytest.raises(ValueError, match="non-empty"):
        registry.executor(executor_id)(lambda inputs: None)


async def test_an_async_function_is_awaited(registry: ExecutorRegistry) -> None:
    @registry.executor("double", type="remote", input_schema={"required": ["n"]})
    async def double(inputs: dict[str, Any]) -> dict[str, Any]:
        """Doubles a number.

        At length.
        """
        return {"twice": inputs["n"] * 2}

    found = registry.get("double")

    assert await run(found, {"n": 21}) == {"twice": 42}
    assert await double({"n": 1}) == {"twice": 2}
    assert (found.summary, found.type) == ("Doubles a number.", ExecutorType.REMOTE)


async def test_a_plain_function_runs_in_a_thread(registry: ExecutorRegistry) -> None:
    @registry.executor("where", summary="Says where it runs.")
    def where(inputs: dict[str, Any]) -> bool:
        return threading.current_thread() is threading.main_thread()

    assert await run(registry.get("where")) == {"value": False}
    assert registry.get("where").summary == "Says where it runs."


async def test_a_function_may_take_the_work_too(registry: ExecutorRegistry) -> None:
    @registry.executor("key")
    async def key(inputs: dict[str, Any], work: Work) -> str:
        return f"{inputs['a']} {work.attempt}"

    @registry.executor("only_work")
    async def only_work(work: Work) -> Any:
        return work.inputs["a"]

    assert await run(registry.get("key"), {"a": 1}) == {"value": "1 1"}
    assert await run(registry.get("only_work"), {"a": 1}) == {"value": 1}


async def test_a_plain_function_reports_progress_without_await(registry: ExecutorRegistry) -> None:
    @registry.executor("reporter")
    def reporter(inputs: dict[str, Any], work: Work) -> None:
        work.report(0.25)
        work.report(0.75)

    reports = Reports()
    await run(registry.get("reporter"), report=reports)

    assert reports == [0.25, 0.75]


async def test_a_plain_function_can_ask_whether_it_is_called_off(registry: ExecutorRegistry) -> None:
    began, saw = threading.Event(), threading.Event()

    @registry.executor("patient")
    def patient(inputs: dict[str, Any], work: Work) -> None:
        began.set()
        while not work.is_cancelled():
            threading.Event().wait(0.001)
        saw.set()

    attempt = asyncio.ensure_future(run(registry.get("patient")))
    await asyncio.to_thread(began.wait, 10)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt

    assert await asyncio.to_thread(saw.wait, 10)


async def test_what_a_function_raises_is_raised(registry: ExecutorRegistry) -> None:
    @registry.executor("broken")
    def broken(inputs: dict[str, Any]) -> None:
        raise LookupError("no such thing")

    @registry.executor("leaving")
    def leaving(inputs: dict[str, Any]) -> None:
        raise SystemExit(3)

    with pytest.raises(LookupError, match="no such thing"):
        await run(registry.get("broken"))
    with pytest.raises(RuntimeError, match="SystemExit: 3"):
        await run(registry.get("leaving"))


def test_a_function_of_other_parameters_is_refused_at_once(registry: ExecutorRegistry) -> None:
    with pytest.raises(TypeError, match=r"'odd' must take \(inputs\)"):

        @registry.executor("odd")
        async def odd(a: int, b: int, c: int) -> None: ...


def test_a_class_without_execute_is_refused_at_once(registry: ExecutorRegistry) -> None:
    with pytest.raises(TypeError, match="has no method execute"):

        @registry.executor("odd")
        class Odd: ...


async def test_a_class_is_instantiated_once(registry: ExecutorRegistry) -> None:
    @registry.executor("counter")
    class Counter:
        """Counts."""

        def __init__(self) -> None:
            self.count = 0

        async def execute(self, inputs: dict[str, Any]) -> dict[str, int]:
            self.count += 1
            return {"count": self.count}

    assert await run(registry.get("counter")) == {"count": 1}
    assert await run(registry.get("counter")) == {"count": 2}


class Remote:
    """A job elsewhere: `execute` waits for it, `cancel` stops it."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.log: list[str] = []

    async def execute(self, inputs: dict[str, Any], work: Work) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append("execute cancelled")

    async def cancel(self, work: Work) -> None:
        self.log.append(f"cancel {work.task.name}")


async def cancelled(registry: ExecutorRegistry, remote: Remote) -> None:
    attempt = asyncio.ensure_future(invoke_executor(registry.get("remote"), work_of()))
    await remote.began.wait()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt


async def test_cancel_is_called_before_execute_is_cancelled(registry: ExecutorRegistry) -> None:
    remote = Remote()
    registry.executor("remote")(type("R", (), {"__new__": lambda cls: remote}))

    await cancelled(registry, remote)

    assert remote.log == ["cancel a", "execute cancelled"]


async def test_a_cancel_that_fails_does_not_save_the_attempt(
    registry: ExecutorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Remote):
        async def cancel(self, work: Work) -> None:
            raise ConnectionError("the other machine is gone")

    remote = Failing()
    registry.executor("remote")(type("R", (), {"__new__": lambda cls: remote}))

    await cancelled(registry, remote)

    assert remote.log == ["execute cancelled"]
    assert "the other machine is gone" in caplog.text


async def test_a_cancel_that_hangs_is_given_up(
    registry: ExecutorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hanging(Remote):
        async def cancel(self, work: Work) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr("weft.executors.invoke.CANCEL_SECONDS", 0.01)
    remote = Hanging()
    registry.executor("remote")(type("R", (), {"__new__": lambda cls: remote}))

    await cancelled(registry, remote)

    assert remote.log == ["execute cancelled"]


async def test_inputs_that_break_the_schema_fail_for_good_with_all_problems(
    registry: ExecutorRegistry,
) -> None:
    schema = {"type": "object", "required": ["n"], "properties": {"m": {"type": "integer"}}}

    @registry.executor("strict", input_schema=schema)
    async def strict(inputs: dict[str, Any]) -> None:
        raise AssertionError("it must not run")

    with pytest.raises(ExecutionFailed, match=r"'strict' refuses its inputs: .* \(and 1 more\)") as caught:
        await run(registry.get("strict"), {"m": "x"})

    assert caught.value.is_permanent
    assert len(caught.value.details["problems"]) == 2


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"a": object()}, ""),
        ({"a": [1.0, {"b": float("nan")}]}, "no number nan"),
        (float("inf"), "no number inf"),
    ],
    ids=["object", "nan", "inf"],
)
async def test_a_result_that_is_no_json_fails_for_good(
    registry: ExecutorRegistry, value: object, reason: str
) -> None:
    @registry.executor("odd")
    async def odd(inputs: dict[str, Any]) -> object:
        return value

    with pytest.raises(
        ExecutionFailed, match=f"'odd' returned a value that is not JSON: .*{reason}"
    ) as caught:
        await run(registry.get("odd"))

    assert caught.value.is_permanent


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (None, {"value": None}),
        ([1], {"value": [1]}),
        ({"a": (1, 2)}, {"a": [1, 2]}),
        (ExecutorType.LOCAL, {"value": "local"}),
    ],
)
async def test_a_result_is_always_an_object_of_plain_json(
    registry: ExecutorRegistry, value: object, result: object
) -> None:
    @registry.executor("give")
    async def give(inputs: dict[str, Any]) -> object:
        return value

    assert await run(registry.get("give")) == result
