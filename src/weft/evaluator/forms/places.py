"""Errors get a place: what a built-in or Python raises becomes an error at the node that was evaluated."""

from contextlib import suppress

from weft.errors import WeftError
from weft.evaluator.env import Env
from weft.evaluator.errors import ProgramError, TaskFailed, exhausted, program_error
from weft.evaluator.forms.clipping import clipped
from weft.language.deep import FRAMES
from weft.language.problems import InvalidProgram
from weft.language.sexp import print_node
from weft.language.sexp.program import why_no_value
from weft.language.spans import NOWHERE
from weft.language.suggestions import nearest
from weft.language.tree import Node
from weft.limits import MAX_SHOWN_CHARACTERS
from weft.secrets.cutting import cut

_CAUSED_BY_PROGRAMS = (
    ArithmeticError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What Python raises for values that do not fit. Anything else is a bug of ours."""


def placed(error: Exception, node: Node, name: str = "the call") -> Exception:
    """The error as it is to be raised at the node. An error that has a place keeps it."""
    if isinstance(error, TaskFailed):
        return error if error.span is not NOWHERE else error.at(node.span, expression_of(node))
    if isinstance(error, WeftError) or not isinstance(error, _CAUSED_BY_PROGRAMS):
        return error
    return _translated(error, name).at(node.span, expression_of(node))


def _translated(error: Exception, name: str) -> ProgramError:
    """An exception of Python in the words of the language."""
    if isinstance(error, RecursionError):
        return too_deep()
    if isinstance(error, MemoryError):
        return exhausted("size", f"{name}: the result does not fit into memory")
    if isinstance(error, ZeroDivisionError):
        return program_error("bad-value", f"{name}: division by zero")
    if isinstance(error, OverflowError):
        return program_error("bad-value", f"{name}: the result is too large for a float")
    if isinstance(error, TypeError):
        return program_error("wrong-type", f"{name}: {error}")
    return program_error("bad-value", f"{name}: {error}")


def too_deep() -> ProgramError:
    """The error for calls that nest deeper than there is stack for."""
    message = "calls nest too deeply; a call in tail position takes no room"
    return exhausted("depth", message, frames=FRAMES)


def unbound(name: str, env: Env, node: Node) -> ProgramError:
    """The error for a name that nothing binds."""
    known: dict[str, None] = {}
    templates: dict[str, None] = {}
    scope: Env | None = env
    while scope is not None:
        known.update(dict.fromkeys(scope))
        library = getattr(scope, "library", None)
        templates.update(dict.fromkeys(library.tasks if library is not None else ()))
        scope = scope.outer
    form = why_no_value(name)
    hint = f"; {form}" if form is not None else nearest(name, templates) or nearest(name, known)
    error = program_error("unbound-name", f"'{name}' is not bound{hint}")
    return error.at(node.span, expression_of(node))


def expression_of(node: Node) -> str:
    """The text of a node on one line, shortened."""
    span = node.span
    start = max(0, span.column - 1)
    # For a node that is only a place.
    text = span.source.line(span.line)[start : start + 2 * MAX_SHOWN_CHARACTERS]
    if type(node) is not Node:
        with suppress(InvalidProgram):  # too deep to be printed, or made in Python and of no text
            text = print_node(clipped(node))
    text = " ".join(text.split())
    return cut(text, MAX_SHOWN_CHARACTERS)
