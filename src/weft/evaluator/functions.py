"""What can be called besides templates: closures and built-ins."""

from collections.abc import Callable, Sequence
from typing import Any

from weft.evaluator.environment import Env
from weft.evaluator.errors import ProgramError, program_error
from weft.language.source import NOWHERE, Span

Code = Callable[[Env], Any]
"""Compiled code: the value of a node in an environment. In tail position it may give a Frame."""


class Frame(Env):
    """The environment of a call, and the body that is to run in it.

    In tail position a call gives its frame instead of running it, so the stack does not grow: the frame is
    the tail call. `finished` runs it. A frame is never a value of the language.
    """

    __slots__ = ("code",)

    code: Code


new_frame = Env.__new__
"""Makes an empty frame without running `Env.__init__`, which takes longer than the call it is made for."""


class Closure:
    """A function of the language, with the environment it was made in."""

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
        """The frame of a call; raises ProgramError when the number of arguments is wrong."""
        if len(arguments) != self.arity:
            raise wrong_arity(self.name or "the function", self.arity, self.arity, len(arguments))
        frame = new_frame(Frame)
        frame.update(zip(self.parameters, arguments, strict=True))
        frame.outer = self.env
        frame.code = self.code
        return frame


class BuiltIn:
    """A function of the language that is written in Python."""

    __slots__ = ("act", "doc", "is_linear", "least", "most", "name", "needs_compiler", "takes_keywords")

    def __init__(
        self,
        name: str,
        act: Callable[..., Any],
        *,
        least: int,
        most: int | None,
        doc: str,
        is_linear: bool = False,
        needs_compiler: bool = False,
        takes_keywords: bool = False,
    ) -> None:
        self.name = name
        self.act = act
        self.least = least
        self.most = most
        self.doc = doc
        self.is_linear = is_linear
        """Whether it takes longer for longer lists and strings: then these count as steps."""
        self.needs_compiler = needs_compiler
        """Whether it calls functions or waits: its first argument is the compiler."""
        self.takes_keywords = takes_keywords

    def __repr__(self) -> str:
        return f"#<built-in {self.name}>"

    def takes(self, count: int) -> bool:
        """Whether so many arguments are right."""
        return self.least <= count and (self.most is None or count <= self.most)


def finished(value: Any) -> Any:
    """The value of what code in tail position gave."""
    while value.__class__ is Frame:
        value = value.code(value)
    return value


def wrong_arity(name: str, least: int, most: int | None, count: int) -> ProgramError:
    """The error for a wrong number of arguments."""
    if most is None:
        wanted = f"at least {least}"
    elif least == most:
        wanted = str(least) if least else "no"
    else:
        wanted = f"{least} to {most}"
    noun = "argument" if wanted in ("1", "at least 1") else "arguments"
    return program_error("wrong-arity", f"{name} takes {wanted} {noun}; it was given {count}")
