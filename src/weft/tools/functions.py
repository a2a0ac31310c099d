"""Python functions as tools: the decorator `@weft.tool`, the registry, and digests of their code."""

import asyncio
import contextlib
import hashlib
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from inspect import isfunction
from types import CodeType
from typing import Any, TypeVar, overload

import msgspec
from msgspec import UNSET, Struct, UnsetType

from weft.aio import call_function
from weft.errors import RequestError, text_of
from weft.evaluator.errors import EvaluationAborted
from weft.evaluator.tools import Tool, ToolContext, ToolDefinition, ToolFailed
from weft.tasks.parsing.problems import plain_json

DIGEST_BYTES = 16

MAX_EXACT = 2**53
"""Up to this value every integer is exactly representable as a float."""


def code_digest(function: Callable[..., Any]) -> str:
    """Return a digest that changes with the code of the function, but not when it moves in its file.

    The functions that it calls and the globals that it uses are not included.
    """
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in _parts_of(function):
        digest.update(repr(part).encode("utf-8", "replace"))
    return digest.hexdigest()


def _parts_of(function: Any) -> Iterator[object]:
    # Includes the function that a decorator has wrapped.
    yield function.__defaults__
    yield function.__kwdefaults__
    yield from _code_parts(function.__code__)
    wrapped = getattr(function, "__wrapped__", None)
    if isfunction(wrapped):
        yield from _parts_of(wrapped)


def _code_parts(code: CodeType) -> Iterator[object]:
    yield code.co_code
    yield code.co_names
    yield code.co_varnames
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _code_parts(value)
        elif isinstance(value, frozenset):  # its order differs between processes
            yield sorted(map(repr, value))
        else:
            yield value


RESERVED = ("system:", "mcp:", "executor:")
"""Prefixes that names of users' tools may not have."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_./-]*)+")


class DuplicateTool(RequestError):
    """A tool with this name is already registered."""

    code = "duplicate-tool"

    def __init__(self, name: str, *, source: str) -> None:
        super().__init__(f"tool '{name}' is already registered ({source})")
        self.name = name


class Registered(Struct, frozen=True):
    """A tool and its source: a module and function, or a text such as `built in`."""

    tool: Tool
    source: str


def check_name(name: str) -> str:
    """Return the name of a user's tool. Raise ValueError if it is invalid or reserved."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"a tool's name has two parts, like 'shop:find_order', not {name!r}")
    if name.startswith(RESERVED):
        raise ValueError(f"tool name '{name}' has a reserved prefix: do not use {', '.join(RESERVED)}")
    return name


class ToolRegistry:
    """Tools by name. Names are compared exactly, without Unicode normalisation or case folding."""

    def __init__(self) -> None:
        self._registered: dict[str, Registered] = {}

    def register(self, tool: Tool, *, source: str) -> None:
        """Add a tool. Raise DuplicateTool if the name belongs to a tool from another source.

        A tool from the same source is replaced, because a module may be imported again.
        """
        name = tool.definition.name
        known = self._registered.get(name)
        if known is not None and known.source != source:
            raise DuplicateTool(name, source=known.source)
        self._registered[name] = Registered(tool, source)

    def find(self, name: str) -> Tool | None:
        known = self._registered.get(name)
        return None if known is None else known.tool

    def names(self) -> frozenset[str]:
        return frozenset(self._registered)

    def __iter__(self) -> Iterator[Registered]:
        return iter([self._registered[name] for name in sorted(self._registered)])


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

PREFIX = "python:"
"""Prefix of the default name of a tool, which is followed by the function's name."""


class FunctionTool:
    """A function as a tool: JSON arguments are validated and converted to the annotated types."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        description: str,
        has_effects: bool,
        is_pure: bool = False,
    ) -> None:
        self.function = function
        self.has_effects = has_effects
        self.source = f"{function.__module__}.{function.__qualname__}"
        self._parameters, self._context_names = _parameters(function, name)
        self._kind = _make_struct(self._parameters, name)
        schema = _with_defaults(schema_of(self._kind), self._parameters)
        self.definition = ToolDefinition(name=name, description=description, input_schema=schema)
        # The context gives access to people and memory.
        self.code_digest = code_digest(function) if is_pure and not self._context_names else None

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Call the function and return its result as JSON; a synchronous function runs in a thread."""
        read = read_arguments(self._kind, arguments)
        given = {name: getattr(read, name) for name in self._parameters}
        keywords = {name: value for name, value in given.items() if value is not UNSET}
        keywords.update(dict.fromkeys(self._context_names, context))
        return _as_json(await self._perform(keywords))

    async def _perform(self, keywords: dict[str, Any]) -> Any:
        try:
            return await call_function(self.function, keywords, name=f"weft-{self.definition.name}")
        except (ToolFailed, EvaluationAborted, asyncio.CancelledError):
            raise
        except (Exception, SystemExit) as error:
            raise ToolFailed(text_of(error)) from error


registered = ToolRegistry()
"""The tools registered by `@weft.tool`."""


@overload
def tool(function: F) -> F: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, pure: bool = False
) -> Callable[[F], F]: ...


def tool(
    function: F | None = None, *, name: str | None = None, description: str | None = None, pure: bool = False
) -> F | Callable[[F], F]:
    """Register the decorated function as a tool, and return it unchanged.

    The name defaults to `python:` and the name of the function, the description to its docstring; a `name`
    has two parts (`"shop:find_order"`). The schema of the arguments comes from the annotations. A parameter
    annotated `ToolContext` is filled in by weft, and models do not see it. An `async` function is awaited; a
    synchronous one runs in a thread. Tools are assumed to have effects, so their results are not reused.
    `pure=True` declares that the tool has no effects, and that its result depends only on its arguments.
    """

    def decorate(target: F) -> F:
        if not inspect.isfunction(target):
            raise TypeError(f"@weft.tool is for functions, not {target!r}")
        made = FunctionTool(
            target,
            name=check_name(f"{PREFIX}{target.__name__}" if name is None else name),
            description=description or inspect.getdoc(target) or target.__name__.replace("_", " "),
            has_effects=not pure,
            is_pure=pure,
        )
        registered.register(made, source=made.source)
        return target

    return decorate if function is None else decorate(function)


def _parameters(function: Callable[..., Any], name: str) -> tuple[dict[str, inspect.Parameter], list[str]]:
    """Return the parameters with resolved annotations, and the names of those that get the context."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise TypeError(f"tool '{name}': its annotations cannot be read: {error}") from error
    found: dict[str, inspect.Parameter] = {}
    filled_in = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"tool '{name}': parameter '{parameter.name}' cannot be passed by keyword")
        kind = hints.get(parameter.name, Any)
        if kind is ToolContext:
            filled_in.append(parameter.name)
        else:
            found[parameter.name] = parameter.replace(annotation=kind)
    return found, filled_in


def _make_struct(parameters: dict[str, inspect.Parameter], name: str) -> type[Any]:
    """Return a struct with the parameters as fields; those with a default in the function may be unset."""
    fields: list[Any] = [
        (parameter.name, parameter.annotation)
        if parameter.default is parameter.empty
        else (parameter.name, parameter.annotation | UnsetType, UNSET)
        for parameter in parameters.values()
    ]
    try:
        kind = msgspec.defstruct("Arguments", fields, kw_only=True, frozen=True, forbid_unknown_fields=True)
        schema_of(kind)
    except TypeError as error:
        raise TypeError(f"tool '{name}': its annotations have no JSON Schema: {error}") from error
    return kind


def _with_defaults(schema: dict[str, Any], parameters: dict[str, inspect.Parameter]) -> dict[str, Any]:
    """Add the defaults that can be encoded as JSON to the schema."""
    for parameter in parameters.values():
        if parameter.default is not parameter.empty:
            try:
                default = msgspec.json.decode(msgspec.json.encode(parameter.default))
            except (TypeError, ValueError):
                continue
            schema["properties"][parameter.name]["default"] = default
    return schema


def _as_json(value: Any) -> Any:
    try:
        return plain_json(value)
    except ValueError as error:
        raise ToolFailed(f"the tool returned a value that is not JSON: {error}") from None


def schema_of(kind: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a struct; structs inside it are under `$defs`."""
    (schema,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    name = schema["$ref"].rpartition("/")[2]
    flat = {key: value for key, value in definitions[name].items() if key not in ("title", "description")}
    inner = {key: value for key, value in definitions.items() if key != name}
    return {**flat, "$defs": inner} if inner else flat


def read_arguments(kind: type[T], arguments: dict[str, Any]) -> T:
    """Convert the arguments to a struct. Raise ToolFailed if they do not match.

    1.0 is accepted as an integer: JSON does not distinguish it from 1, and models write both.
    """
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        with contextlib.suppress(msgspec.ValidationError):
            return msgspec.convert(_with_whole_numbers(arguments), kind)
        raise ToolFailed(f"wrong arguments: {error}") from None


def _with_whole_numbers(value: Any) -> Any:
    """Replace whole floats by integers, as far as floats are exact."""
    match value:
        case float() if value.is_integer() and abs(value) <= MAX_EXACT:
            return int(value)
        case dict():
            return {key: _with_whole_numbers(one) for key, one in value.items()}
        case list():
            return [_with_whole_numbers(one) for one in value]
    return value
