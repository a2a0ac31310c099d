"""Calls of built-ins."""

from weft.language.builtin_arities import BUILT_IN_ARITIES
from weft.language.builtin_names import TASK_LIBRARY
from weft.language.check.built_in_kinds import ARGUMENT_KINDS, FUNCTION_ARGUMENTS
from weft.language.check.calls import count_text
from weft.language.check.constants import kind_of, length_of
from weft.language.check.findings import Findings
from weft.language.check.scopes import Frame
from weft.language.spans import Span
from weft.language.tree import FunctionCall, Literal, Node

ORDERED = frozenset({"<", ">", "<=", ">="})
"""They compare numbers with numbers and strings with strings."""

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")


def check_built_in_call(node: FunctionCall, frame: Frame, findings: Findings) -> None:
    """Note what is wrong with a call of a built-in."""
    name, count = node.func_name, len(node.args)
    if name == TASK_LIBRARY:
        message = f"'{name}' is the task library; only functions and tasks can be called"
        findings.note(node.span, "wrong-type", message)
        return
    if node.keywords and name != "dict":
        findings.note(node.span, "unknown-keyword", f"{name} takes no keywords: :{node.keywords[0][0]}")
    if not takes(name, count):
        note_arity(name, count, node.span, findings)
        return
    if name in ("dict", "assoc") and (count - (name == "assoc")) % 2:
        message = f"{name} takes keys and values in turn; the last key has no value"
        findings.note(node.span, "wrong-arity", message)
    if name == "format":
        _check_format(node, findings)
    kinds = ARGUMENT_KINDS.get(name)
    if kinds is not None:
        _check_kinds(node, kinds, frame, findings)


def takes(name: str, count: int) -> bool:
    """Whether a built-in takes so many arguments."""
    least, most = BUILT_IN_ARITIES[name]
    return least <= count and (most is None or count <= most)


def note_arity(name: str, count: int, span: Span, findings: Findings) -> None:
    """Note that a built-in is called with so many arguments and does not take them."""
    expected = count_text(*BUILT_IN_ARITIES[name])
    findings.note(span, "wrong-arity", f"{name} takes {expected}; it is given {count}")


def function_argument(node: FunctionCall, frame: Frame) -> tuple[Node, int] | None:
    """The argument that the built-in calls, and with how many arguments; None: there is none."""
    name, args = node.func_name, node.args
    if name in ("map", "for-each"):
        return (args[0], len(args) - 1) if len(args) > 1 else None
    if name == "apply":
        last = length_of(args[-1], frame) if len(args) > 1 else None
        return (args[0], len(args) - 2 + last) if last is not None else None
    position, count = FUNCTION_ARGUMENTS.get(name, (len(args), 0))
    if name in ("any", "all") and len(args) < 2:
        return None
    return (args[position], count) if position < len(args) else None


def _check_kinds(
    node: FunctionCall, kinds: tuple[tuple[str, ...], ...], frame: Frame, findings: Findings
) -> None:
    if node.func_name == "apply":  # the last argument is a list, however many there are before it
        kinds = (kinds[0], *((),) * (len(node.args) - 2), kinds[-1])
    last = len(kinds) - 1
    first: str | None = None
    for position, argument in enumerate(node.args):
        allowed = kinds[min(position, last)] if first is None else (first,)
        kind = kind_of(argument, frame) if allowed else None
        if kind is None:
            continue
        if kind in allowed:
            first = kind if node.func_name in ORDERED else None
            continue
        which = f"the {_ORDINALS[position]}" if position < len(_ORDINALS) else f"argument {position + 1}"
        wanted = " or ".join(allowed[:-1] if allowed[-1] == "nil" else allowed)  # nil as an empty list
        message = f"{node.func_name} takes {wanted} here; {which} is {kind}{_hint(kind)}"
        findings.note(argument.span, "wrong-type", message)


def _hint(kind: str) -> str:
    return "; (content r) is its text, (parsed r) its value" if kind == "a task result" else ""


def _check_format(node: FunctionCall, findings: Findings) -> None:
    template = node.args[0]
    if not isinstance(template, Literal) or not isinstance(template.value, str):
        return
    places = template.value.replace("{{", "").replace("}}", "").count("{}")
    if places != len(node.args) - 1:
        message = f"format has {places} {{}} for the {len(node.args) - 1} values it is given"
        findings.note(node.span, "wrong-arity", message)
