"""Closures and built-in functions."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from weft.evaluator.environment import Env
from weft.evaluator.errors import ProgramError, program_error
from weft.language.builtins import Signature, count_text
from weft.language.source import NOWHERE, Span

Code = Callable[[Env], Any]
"""Compiled code: returns the value of a node in an environment. In tail position it may return a Frame."""


class Frame(Env):
    """The environment of a call and the body to run in it: a pending tail call.

    A call in tail position returns its frame instead of running it, so the stack does not grow.
    `run_tail_calls` runs it. A frame is never a value of the language.
    """

    __slots__ = ("code",)

    code: Code


new_frame = Env.__new__
"""Creates an empty frame without `Env.__init__`, which would take longer than the call itself."""


class Closure:
    """A function of the language, with the environment that it was created in."""

    __slots__ = ("arity", "code", "env", "name", "parameters", "span")

    def __init__(
        self,
        parameters: tuple[str, ...],
        code: Code,
        env: Env,
        *,
        name: str | None = None,
        span: Span = NOWHERE,
    ) -> None:
        self.parameters = parameters
        self.arity = len(parameters)
        self.code = code
        self.env = env
        self.name = name
        self.span = span

    def __repr__(self) -> str:
        return f"#<function {self.name or 'lambda'}>"

    def frame(self, arguments: Sequence[Any]) -> Frame:
        """Return the frame of a call. Raise ProgramError for a wrong number of arguments."""
        if len(arguments) != self.arity:
            raise wrong_arity(self.name or "the function", self.arity, self.arity, len(arguments))
        frame = new_frame(Frame)
        frame.update(zip(self.parameters, arguments, strict=True))
        frame.outer = self.env
        frame.code = self.code
        return frame


class BuiltIn(Struct, frozen=True, eq=False):
    """A function of the language that is written in Python."""

    signature: Signature
    takes: Callable[[int], bool]
    """Returns whether it can be called with that many arguments."""
    act: Callable[..., Any]
    unguarded: Callable[..., Any]
    """The implementation without the checks of its arguments."""
    is_linear: bool = False
    """Whether its time grows with the length of its arguments, which then count as operations."""
    needs_compiler: bool = False
    """Whether it calls functions or waits; its first argument is then the compiler."""
    takes_keywords: bool = False

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def doc(self) -> str:
        """Return the usage and what it does, in one line."""
        return f"{self.signature.usage}: {self.signature.doc}"

    def __repr__(self) -> str:
        return f"#<built-in {self.name}>"


def run_tail_calls(value: Any) -> Any:
    """Run pending tail calls and return the final value."""
    while value.__class__ is Frame:
        value = value.code(value)
    return value


def wrong_arity(name: str, least: int, most: int | None, count: int) -> ProgramError:
    return program_error("wrong-arity", f"{name} takes {count_text(least, most)}; it was given {count}")
