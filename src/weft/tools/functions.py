"""Python functions as tools: `@weft.tool`, and a digest of their code."""

import asyncio
import hashlib
import inspect
import typing
from collections.abc import Callable, Iterator
from inspect import isfunction
from types import CodeType
from typing import Any, TypeVar, overload

import msgspec
from msgspec import UNSET, UnsetType

from weft.aio import run_blocking
from weft.errors import text_of
from weft.evaluator.errors import EndsEvaluation
from weft.evaluator.tools import ToolContext, ToolDefinition, ToolFailed
from weft.tools.arguments import is_finite, read_arguments, schema_of
from weft.tools.registry import ToolRegistry, check_name

DIGEST_BYTES = 16


def code_digest(function: Callable[..., Any]) -> str:
    """Another one when the code of the function is changed, not when it only moves in its file.

    What it calls, and the values of its module that it uses, are not looked at.
    """
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in _parts_of(function):
        digest.update(repr(part).encode("utf-8", "replace"))
    return digest.hexdigest()


def _parts_of(function: Any) -> Iterator[object]:
    """Also of what a decorator has wrapped."""
    yield function.__defaults__
    yield function.__kwdefaults__
    yield from _parts(function.__code__)
    wrapped = getattr(function, "__wrapped__", None)
    if isfunction(wrapped):
        yield from _parts_of(wrapped)


def _parts(code: CodeType) -> Iterator[object]:
    yield code.co_code
    yield code.co_names
    yield code.co_varnames
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _parts(value)
        elif isinstance(value, frozenset):  # its order is another in every process
            yield sorted(map(repr, value))
        else:
            yield value


F = TypeVar("F", bound=Callable[..., Any])

PREFIX = "python:"
"""What the name of a tool begins with that is named by its function: tools have a colon in their names."""


class FunctionTool:
    """A function that is called with JSON: its arguments are checked and converted to what it asks for."""

    def __init__(
        self, function: Callable[..., Any], *, name: str, description: str, has_effects: bool
    ) -> None:
        self.function = function
        self.has_effects = has_effects
        self.source = f"{function.__module__}.{function.__qualname__}"
        self._parameters, self._context_names = _parameters(function, name)
        self._kind = _struct(self._parameters, name)
        schema = _with_defaults(schema_of(self._kind), self._parameters)
        self.definition = ToolDefinition(name=name, description=description, input_schema=schema)
        is_pure = not has_effects and not self._context_names  # with a context it can ask people and memory
        self.code_digest = code_digest(function) if is_pure else None

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """What the function returns, as JSON; a plain function runs in a thread."""
        read = read_arguments(self._kind, arguments)
        given = {name: getattr(read, name) for name in self._parameters}
        keywords = {name: value for name, value in given.items() if value is not UNSET}
        keywords.update(dict.fromkeys(self._context_names, context))
        return _as_json(await self._perform(keywords))

    async def _perform(self, keywords: dict[str, Any]) -> Any:
        try:
            if inspect.iscoroutinefunction(self.function):
                return await self.function(**keywords)
            value = await run_blocking(lambda: self.function(**keywords), name=f"weft-{self.definition.name}")
            return await value if inspect.isawaitable(value) else value
        except (ToolFailed, EndsEvaluation, asyncio.CancelledError):
            raise
        except (Exception, SystemExit) as error:
            raise ToolFailed(text_of(error)) from error


registered = ToolRegistry()
"""What `@weft.tool` registers in."""


@overload
def tool(function: F) -> F: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, pure: bool = False
) -> Callable[[F], F]: ...


def tool(
    function: F | None = None, *, name: str | None = None, description: str | None = None, pure: bool = False
) -> F | Callable[[F], F]:
    """Make the decorated function a tool; it stays what it is.

    The name is `python:` and the function's unless one is given (`"shop:find_order"`), the description its
    docstring; annotations make the schema of the arguments. A parameter annotated `ToolContext` is filled in,
    and no model sees it. An `async` function is awaited, a plain one runs in a thread. A tool is taken to
    have effects, so that its results are not reused; `pure=True` says that it has none, and always gives the
    same for the same arguments.
    """

    def decorate(target: F) -> F:
        if not inspect.isfunction(target):
            raise TypeError(f"@weft.tool is for functions, not {target!r}")
        made = FunctionTool(
            target,
            name=check_name(f"{PREFIX}{target.__name__}" if name is None else name),
            description=description or inspect.getdoc(target) or target.__name__.replace("_", " "),
            has_effects=not pure,
        )
        registered.register(made, source=made.source)
        return target

    return decorate if function is None else decorate(function)


def _parameters(function: Callable[..., Any], name: str) -> tuple[dict[str, inspect.Parameter], list[str]]:
    """What a caller gives, with resolved annotations; and the names of what is filled in."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise TypeError(f"tool '{name}': its annotations cannot be read: {error}") from error
    found: dict[str, inspect.Parameter] = {}
    filled_in = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"tool '{name}': parameter '{parameter.name}' cannot be given by name")
        kind = hints.get(parameter.name, Any)
        if kind is ToolContext:
            filled_in.append(parameter.name)
        else:
            found[parameter.name] = parameter.replace(annotation=kind)
    return found, filled_in


def _struct(parameters: dict[str, inspect.Parameter], name: str) -> type[Any]:
    """A struct with the parameters as fields. One with a default may be missing: the function knows it."""
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
    """The schema with the defaults that can be written as JSON."""
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
        encoded = msgspec.json.encode(value)
        if b"null" in encoded and not is_finite(msgspec.to_builtins(value, str_keys=True)):
            raise ValueError("a number in it is not finite")  # the encoder writes null for it
        return msgspec.json.decode(encoded)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ToolFailed(f"the tool returned what is no JSON: {error}") from None
