"""Checks of calls of functions, templates and built-ins: arity, keywords, types."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET

from weft.language.ast import FunctionCall, Lambda, Literal, Node, TaskNode, Template, Variable
from weft.language.builtins import SIGNATURES, TASK_LIBRARY, argument_text, count_text
from weft.language.check.inference import (
    JSON_TYPES,
    UNKNOWN,
    constant,
    is_function,
    kind_of,
    known_shape,
    leaves_program,
    length_of,
    types_of,
)
from weft.language.check.outputs import value_types
from weft.language.check.scopes import Call, Cell, Frame, Need
from weft.language.diagnostics import Findings, InvalidProgram, LanguageProblem
from weft.language.fields import CALL_SETTINGS, misplaced
from weft.language.library import open_inputs
from weft.language.options import read_setting
from weft.language.source import Span
from weft.language.task_fields import Parameter

_EXAMPLE_VALUES: dict[str | None, Any] = {
    "nil": None,
    "a boolean": True,
    "a number": 1,
    "a list": [],
    "a dict": {},
    "a string": "",
    "a function": len,
}
"""An example value of each kind, checked in place of a value of which only the kind is known."""


class CallChecks:
    """Checks calls. Problems that a later `set!` could resolve are only reported at the end."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self.changed: set[str] = set()
        """Names that some `set!` changes, so that their values are not certain."""
        self._uncertain: list[tuple[str, LanguageProblem]] = []
        """Called names with a problem, which is reported unless the name is in `changed`."""
        self._template_calls: dict[tuple[int, int], tuple[Template, Call, Frame]] = {}

    def check(self, need: Need, cell: Cell) -> None:
        """Check the call of a need, if it has one, against the binding of the called name."""
        call = need.call
        if call is None:
            return
        if isinstance(cell.value, Template):
            self.defer_template_call(cell.value, call, need.origin)
        elif isinstance(cell.value, Lambda):
            found = closure_problems(need.name, cell.value, call, self._findings)
            self._uncertain.extend((need.name, problem) for problem in found)
        else:
            kind = kind_of(cell.value, need.origin)
            message = f"'{need.name}' is {kind}; only functions and tasks can be called"
            problem = LanguageProblem(call.span, "wrong-type", message)
            self._uncertain.append((need.name, problem))

    def check_closure_call(self, closure: Lambda, call: Call) -> None:
        """Check a call of a lambda that is written where it is called."""
        self._findings.add(closure_problems(closure.name or "the function", closure, call, self._findings))

    def defer_template_call(self, template: Template, call: Call, frame: Frame) -> None:
        """Remember a call of a template, to be checked when all global names are known."""
        self._template_calls.setdefault((id(template), id(call)), (template, call, frame))

    def report(self, global_names: Frame) -> None:
        """Report the problems of all calls; called once, after the walk."""
        for name, problem in self._uncertain:
            if name not in self.changed:
                self._findings.add([problem])
        for template, call, frame in self._template_calls.values():
            for name in list(call.result_cells):
                if name in self.changed or call.result_cells[name].is_replaced:
                    del call.result_cells[name]
            self._findings.add(template_problems(template, call, frame, global_names, self._findings))


def closure_problems(name: str, closure: Lambda, call: Call, findings: Findings) -> list[LanguageProblem]:
    parameters = closure.parameters
    given = set(parameters[: len(call.args)])
    found: list[LanguageProblem] = []
    for keyword, _ in call.keywords:
        if keyword not in parameters:
            hint = findings.nearest(keyword, parameters)
            if keyword in CALL_SETTINGS:
                hint = f"; only calls of tasks take :{keyword}"
            message = f"{name} has no parameter '{keyword}'{hint}"
            found.append(LanguageProblem(call.span, "unknown-keyword", message))
        elif keyword in given:
            message = f"{name} is given '{keyword}' twice"
            found.append(LanguageProblem(call.span, "duplicate-name", message))
        given.add(keyword)
    count = len(call.args) + len(call.keywords)
    if not found and count != len(parameters):
        expected = count_text(len(parameters), len(parameters))
        missing = [one for one in parameters if one not in given]
        hint = f": {_quoted(missing)} {'is' if len(missing) == 1 else 'are'} missing" if missing else ""
        message = f"{name} takes {expected}; it is given {count}{hint}"
        found.append(LanguageProblem(call.span, "wrong-arity", message))
    return found


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def template_problems(
    template: Template, call: Call, frame: Frame, global_names: Frame, findings: Findings
) -> Iterable[LanguageProblem]:
    parameters = {one.name: one for one in template.parameters}
    name, span = template.name, call.span
    if len(call.args) > len(parameters):
        expected = count_text(len(parameters), len(parameters))
        message = f"{name} takes {expected}; it is given {len(call.args)}"
        yield LanguageProblem(span, "wrong-arity", message)
    values: dict[str, Node | None] = dict(zip(parameters, call.args, strict=False))
    inputs = open_inputs(template)
    settings: dict[str, Node | None] = {}
    for keyword, value in call.keywords:
        if keyword in values:
            yield LanguageProblem(span, "duplicate-name", f"{name} is given '{keyword}' twice")
        elif keyword in parameters or keyword in inputs:
            values[keyword] = value
        elif keyword in CALL_SETTINGS:
            settings[keyword] = value
        else:
            hint = findings.nearest(keyword, [*parameters, *inputs, *CALL_SETTINGS])
            yield LanguageProblem(span, "unknown-keyword", f"{name} has no parameter '{keyword}'{hint}")
    needed = [one.name for one in template.parameters if one.default is UNSET]
    needed += [one for one, is_needed in inputs.items() if is_needed and global_names.find(one) is None]
    missing = [one for one in dict.fromkeys(needed) if one not in values]
    if missing:
        yield LanguageProblem(span, "wrong-arity", f"{name} needs a value for {_quoted(missing)}")
    if settings and not isinstance(template.body, TaskNode):
        message = f":{next(iter(settings))} is for single tasks, and the body of {name} is not a task"
        yield LanguageProblem(span, "bad-value", message)
    misplacement = misplaced(template.body, [CALL_SETTINGS[one].name for one in settings])
    if misplacement is not None:
        yield LanguageProblem(span, "bad-value", f"{name}: {misplacement}")
    yield from _setting_problems(settings, frame)
    for keyword, value in values.items():
        if keyword in parameters:
            yield from _type_problems(template, parameters[keyword], value, frame, call)
    if is_function(template.body, global_names):
        yield LanguageProblem(span, "wrong-type", f"{name} returns a function, which cannot leave a template")


def _setting_problems(settings: dict[str, Node | None], frame: Frame) -> Iterable[LanguageProblem]:
    """Yield the problems of call settings with values that are known without evaluation."""
    for name, node in settings.items():
        if node is None:
            continue
        value = constant(node, frame)
        if value is UNKNOWN:
            value = _EXAMPLE_VALUES.get(kind_of(node, frame), UNKNOWN)
        if value is UNKNOWN:
            continue
        try:
            read_setting(name, value, node.span)
        except InvalidProgram as error:
            yield from error.found


def _type_problems(
    template: Template, parameter: Parameter, value: Node | None, frame: Frame, call: Call
) -> Iterable[LanguageProblem]:
    span = value.span if value is not None else call.span
    if is_function(value, frame) and leaves_program(template, parameter.name):
        message = f"'{parameter.name}' of {template.name} is a function, which cannot leave the program"
        yield LanguageProblem(span, "wrong-type", message)
    reason = find_mismatch(value, parameter.type, frame, call.result_cells)
    if reason is not None:
        message = f"'{parameter.name}' of {template.name} must be {parameter.type}: {reason}"
        yield LanguageProblem(span, "wrong-type", message)


def find_mismatch(
    value: Node | None,
    shape: str | None,
    frame: Frame,
    result_cells: Mapping[str, Cell] | None = None,
    *,
    is_read: bool = False,
) -> str | None:
    """Explain why a value certainly violates a shape; None: it may match.

    `result_cells` are the bindings of names to results of tasks. `is_read`: a text result will be parsed as
    JSON, so that a string may match any shape.
    """
    known = known_shape(shape)
    if known is None or value is None:
        return None
    fixed = constant(value, frame)
    if fixed is not UNKNOWN:
        found = known.violations(fixed)
        return str(found[0]) if found else None
    allowed = types_of(shape)
    if allowed is None:
        return None
    kind = kind_of(value, frame)
    given = JSON_TYPES.get(kind)
    if given is not None:
        return None if given in allowed else f"this is {kind}"
    cell = (result_cells or {}).get(value.name) if isinstance(value, Variable) and not value.path else None
    types = value_types(
        *(cell.producer if cell is not None and cell.producer is not None else (value, frame))
    )
    if types is None or types[0] & allowed or (is_read and "string" in types[0]):
        return None
    return types[1]


def default_problem(parameter: Parameter, template: Template) -> LanguageProblem | None:
    """Return the problem of a default that violates the type of its parameter, or None."""
    shape = known_shape(parameter.type)
    default: Any = parameter.default
    if shape is None or default is UNSET:
        return None
    found = shape.violations(default)
    if not found:
        return None
    message = f"the default of '{parameter.name}' must be {parameter.type}: {found[0]}"
    return LanguageProblem(template.span, "wrong-type", message)


ORDERED = frozenset({"<", ">", "<=", ">="})
"""Built-ins that require all arguments to be of the same kind: numbers or strings."""


def check_built_in_call(node: FunctionCall, frame: Frame, findings: Findings) -> None:
    name, count = node.func_name, len(node.args)
    if name == TASK_LIBRARY:
        message = f"'{name}' is the task library; only functions and tasks can be called"
        findings.note(node.span, "wrong-type", message)
        return
    if node.keywords and name != "dict":
        findings.note(node.span, "unknown-keyword", f"{name} takes no keywords: :{node.keywords[0][0]}")
    if not check_arity(name, count, node.span, findings):
        return
    if name in ("dict", "assoc") and (count - (name == "assoc")) % 2:
        message = f"{name} takes keys and values in turn; the last key has no value"
        findings.note(node.span, "wrong-arity", message)
    if name == "format":
        _check_format(node, findings)
    _check_kinds(node, frame, findings)


def check_arity(name: str, count: int, span: Span, findings: Findings) -> bool:
    """Return whether a built-in can be called with `count` arguments; if not, note it."""
    signature = SIGNATURES[name]
    if signature.accepts(count):
        return True
    expected = count_text(signature.least, signature.most)
    findings.note(span, "wrong-arity", f"{name} takes {expected}; it is given {count}")
    return False


def function_argument(node: FunctionCall, frame: Frame) -> tuple[Node, int] | None:
    """Return the argument that a built-in calls and the number of arguments it passes, or None if unknown."""
    name, args = node.func_name, node.args
    if name in ("map", "for-each"):
        return (args[0], len(args) - 1) if len(args) > 1 else None
    if name == "apply":
        last = length_of(args[-1], frame) if len(args) > 1 else None
        return (args[0], len(args) - 2 + last) if last is not None else None
    if name == TASK_LIBRARY or (name in ("any", "all") and len(args) < 2):
        return None
    for argument, given in zip(SIGNATURES[name].arguments, args, strict=False):
        if argument.calls_with is not None:
            return given, argument.calls_with
    return None


def _check_kinds(node: FunctionCall, frame: Frame, findings: Findings) -> None:
    arguments = SIGNATURES[node.func_name].expand(len(node.args))
    first: str | None = None
    for position, (declared, argument) in enumerate(zip(arguments, node.args, strict=True)):
        allowed = declared.kinds if first is None else (first,)
        kind = kind_of(argument, frame) if allowed else None
        if kind is None:
            continue
        if kind in allowed:
            first = kind if node.func_name in ORDERED else None
            continue
        wanted = declared.describe() if first is None else first
        hint = "; (content r) is its text, (parsed r) its value" if kind == "a task result" else ""
        message = f"{node.func_name} takes {wanted} here; {argument_text(position)} is {kind}{hint}"
        findings.note(argument.span, "wrong-type", message)


def _check_format(node: FunctionCall, findings: Findings) -> None:
    template = node.args[0]
    if not isinstance(template, Literal) or not isinstance(template.value, str):
        return
    slots = template.value.replace("{{", "").replace("}}", "").count("{}")
    if slots != len(node.args) - 1:
        message = f"format has {slots} {{}} for the {len(node.args) - 1} values it is given"
        findings.note(node.span, "wrong-arity", message)
