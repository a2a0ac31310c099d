"""Python functions are tools."""

import asyncio
import enum
import threading
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from msgspec import Meta, Struct

import weft
from weft.evaluator.tools import Tool, ToolContext, ToolFailed
from weft.tools import functions
from weft.tools.functions import DuplicateTool, ToolRegistry


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> ToolRegistry:
    """Return a registry of the test's own: functions are registered for the whole process."""
    fresh = ToolRegistry()
    monkeypatch.setattr(functions, "registered", fresh)
    return fresh


def found(name: str) -> Tool:
    tool = functions.registered.find(name)
    assert tool is not None
    return tool


async def call(name: str, **arguments: Any) -> Any:
    tool = found(name)
    jsonschema_rs.validate(tool.definition.input_schema, arguments, offline=True)
    return await tool.call(arguments, ToolContext(step_key="3/1"))


class Point(Struct):
    x: int
    y: int = 0


@dataclass
class Size:
    width: float


class Colour(enum.Enum):
    RED = "red"


async def test_a_function_is_a_tool_and_stays_a_function() -> None:
    @weft.tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    assert add(1) == 3
    assert await call("python:add", a=1) == 3
    assert await call("python:add", a=1, b=1) == 2
    definition = found("python:add").definition
    assert definition.description == "Add two numbers."
    assert definition.input_schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert found("python:add").has_effects


async def test_a_name_and_purity_may_be_given() -> None:
    @weft.tool(name="shop:find_order", pure=True, description="Find it.")
    async def find(order: str) -> dict[str, str]:
        await asyncio.sleep(0)
        return {"order": order}

    assert await call("shop:find_order", order="a") == {"order": "a"}
    assert not found("shop:find_order").has_effects
    assert found("shop:find_order").definition.description == "Find it."


async def test_arguments_arrive_as_what_the_function_asks_for() -> None:
    seen: list[Any] = []

    @weft.tool
    def take(
        point: Point,
        size: Size,
        colour: Colour,
        mode: Literal["fast", "slow"],
        tags: list[str],
        table: dict[str, float],
        limit: Annotated[int, Meta(ge=1, description="How many.")] = 5,
        note: str | None = None,
        anything: Any = None,
    ) -> None:
        seen.append((point, size, colour, mode, tags, table, limit, note, anything))

    await call(
        "python:take",
        point={"x": 1},
        size={"width": 2.5},
        colour="red",
        mode="fast",
        tags=["a"],
        table={"a": 1},
        anything=[1, "b"],
    )

    assert seen == [(Point(1), Size(2.5), Colour.RED, "fast", ["a"], {"a": 1.0}, 5, None, [1, "b"])]
    schema = found("python:take").definition.input_schema
    assert schema["properties"]["mode"] == {"enum": ["fast", "slow"]}
    assert schema["properties"]["limit"]["description"] == "How many."
    assert set(schema["$defs"]) == {"Point", "Size", "Colour"}


@pytest.mark.parametrize("arguments", [{}, {"a": "x"}, {"a": 1, "b": 2}])
async def test_arguments_that_do_not_fit_are_told(arguments: dict[str, Any]) -> None:
    @weft.tool
    def one(a: int) -> None: ...

    with pytest.raises(ToolFailed, match="wrong arguments"):
        await found("python:one").call(arguments, ToolContext())


async def test_the_context_is_filled_in_and_no_model_sees_it() -> None:
    @weft.tool
    def key(context: ToolContext, prefix: str = "k") -> str:
        return prefix + context.step_key

    assert await call("python:key") == "k3/1"
    assert list(found("python:key").definition.input_schema["properties"]) == ["prefix"]


async def test_a_plain_function_runs_beside_the_event_loop() -> None:
    @weft.tool
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert await call("python:where") is False


async def test_what_a_function_raises_is_told_in_its_words() -> None:
    @weft.tool
    def known() -> None:
        raise ToolFailed("the shop is closed")

    @weft.tool
    async def unknown() -> None:
        raise ValueError("no such order")

    @weft.tool
    async def leaving() -> None:
        raise SystemExit(3)

    with pytest.raises(ToolFailed, match=r"^the shop is closed$"):
        await call("python:known")
    with pytest.raises(ToolFailed, match=r"^ValueError: no such order$"):
        await call("python:unknown")
    with pytest.raises(ToolFailed, match=r"^SystemExit: 3$"):
        await call("python:leaving")


async def test_a_call_is_cancelled_as_a_task() -> None:
    is_cancelled = asyncio.Event()
    has_begun = asyncio.Event()

    @weft.tool
    async def wait() -> None:
        has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            is_cancelled.set()

    running = asyncio.create_task(call("python:wait"))
    await has_begun.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert is_cancelled.is_set()


async def test_results_are_json() -> None:
    @weft.tool
    def point() -> Point:
        return Point(1, 2)

    @weft.tool
    def nonsense() -> Any:
        return object()

    assert await call("python:point") == {"x": 1, "y": 2}
    with pytest.raises(ToolFailed, match="not JSON"):
        await call("python:nonsense")


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
async def test_a_number_that_is_not_finite_is_no_result(number: float) -> None:
    @weft.tool
    def measure(where: str) -> Any:
        return {"plain": number, "list": [None, (number,)], "struct": Size(number), "none": None}[where]

    for where in ("plain", "list", "struct"):
        with pytest.raises(ToolFailed, match="not JSON: JSON has no number"):
            await call("python:measure", where=where)
    assert await call("python:measure", where="none") is None


async def test_a_whole_number_may_be_written_with_a_point() -> None:
    @weft.tool
    def place(at: Point, times: int, scale: float = 1.0) -> list[Any]:
        return [at.x, at.y, times, scale]

    assert await call("python:place", at={"x": 1.0, "y": 2}, times=3.0, scale=2.0) == [1, 2, 3, 2.0]
    for wrong in (1.5, 1e300, "1"):
        with pytest.raises(ToolFailed, match="wrong arguments"):
            await found("python:place").call({"at": {"x": 1}, "times": wrong}, ToolContext())


def test_what_cannot_be_called_by_name_is_refused_when_it_is_decorated() -> None:
    with pytest.raises(TypeError, match="'args' cannot be passed by keyword"):

        @weft.tool
        def star(*args: int) -> None: ...

    with pytest.raises(TypeError, match="have no JSON Schema"):

        @weft.tool
        def odd(a: threading.Thread) -> None: ...

    with pytest.raises(TypeError, match="annotations cannot be read"):

        @weft.tool
        def missing(a: "Nowhere") -> None: ...  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(TypeError, match="for functions"):
        weft.tool(Point)


@pytest.mark.parametrize(
    "name", ["plain", "system:mine", "mcp:a:b", "executor:x", "\u0455hop:x", "a:", ":a", "a b:c"]
)
def test_names_that_no_tool_of_ones_own_may_have(name: str) -> None:
    with pytest.raises(ValueError, match="name"):

        @weft.tool(name=name)
        def some() -> None: ...


def test_a_name_is_given_once() -> None:
    @weft.tool(name="a:b")
    def first() -> None: ...

    with pytest.raises(DuplicateTool, match="'a:b' is already registered"):

        @weft.tool(name="a:b")
        def second() -> None: ...


def test_a_function_that_is_made_again_replaces_itself() -> None:
    for answer in (1, 2):

        @weft.tool(description=str(answer))
        def again() -> int:
            return 1

    assert found("python:again").definition.description == "2"
