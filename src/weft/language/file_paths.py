"""Static analysis of file paths: the names that hold them, and the files that a program always reads."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from weft.language import ast
from weft.language.source import Span
from weft.language.task_fields import AIDER_SUBTYPES
from weft.language.traversal import reachable_definitions, structs_in

_HIGHER_ORDER = frozenset({"map", "filter", "for-each", "apply"})
"""Built-ins that pass lists or their elements to a function."""

_QualifiedName = tuple[str, str]
"""(owner, name): the owner is the template or function with a parameter of that name; "" for other names."""


def find_path_names(nodes: Sequence[ast.Node]) -> frozenset[str]:
    """Return the names of variables that hold file paths.

    A variable holds a path if it is a whole path of `file_paths`, occurs in `:files` of a call, or is passed,
    alone or in a list, to a parameter, an input or a binding that holds one. Parameters of different
    templates are kept apart; equal local names are not.
    """
    found: set[_QualifiedName] = set()
    passed: list[tuple[_QualifiedName, _QualifiedName]] = []
    parameters = _parameters_by_owner(nodes)
    for owner, body in _bodies(nodes):
        own = frozenset(parameters.get(owner, ()))
        for one in structs_in([body]):
            if isinstance(one, ast.FilePaths):
                found |= {_qualify(name, owner, own) for path in one.paths for name in _variables_in(path)}
            elif isinstance(one, ast.FunctionCall):
                files = [value for keyword, value in one.keywords if keyword == "files"]
                variables = [node.name for node in structs_in(files) if isinstance(node, ast.Variable)]
                found |= {_qualify(name, owner, own) for name in variables}
            passed += [
                (_qualify(name, owner, own) if to is None else (to, name), _qualify(value, owner, own))
                for to, name, node in _bindings_of(one, parameters)
                for value in _variables_in(node)
            ]
    while more := {value for name, value in passed if name in found} - found:
        found |= more
    return frozenset(name for owner, name in found if not owner)


def _qualify(name: str, owner: str, own: frozenset[str]) -> _QualifiedName:
    return (owner, name) if name in own else ("", name)


def _parameters_by_owner(nodes: Sequence[ast.Node]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for one in structs_in(nodes):
        if isinstance(one, ast.Template):
            found[one.name] = tuple(parameter.name for parameter in one.parameters)
        elif isinstance(one, ast.Define) and isinstance(one.value, ast.Lambda):
            found[one.name] = one.value.parameters
    return found


def _bodies(nodes: Iterable[ast.Node]) -> Iterator[tuple[str, ast.Node]]:
    """Yield the body of each template and function with its name, and all other forms with ""."""
    for node in nodes:
        if isinstance(node, ast.Template):
            yield node.name, node.body
        elif isinstance(node, ast.Define) and isinstance(node.value, ast.Lambda):
            yield node.name, node.value.body
        else:
            yield "", node


def _bindings_of(
    node: Struct, parameters: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str | None, str, ast.Node]]:
    """Yield (owner, name, value) for each name that a node binds.

    The owner of a parameter is the called template or function; None: the name is not a parameter of either.
    """
    match node:
        case ast.FunctionCall(func_name=name, args=[function, *args]) if name in _HIGHER_ORDER:
            yield from _bind_arguments(function, args, (), parameters)
        case ast.FunctionCall(func_name=name, args=args, keywords=keywords):
            yield from _bind_arguments(ast.Variable(name=name), args, keywords, parameters)
        case ast.Apply(function=function, args=args, keywords=keywords):
            yield from _bind_arguments(function, args, keywords, parameters)
        case ast.Reference(ref=ref, inputs=inputs):
            yield from ((ref, one.name, one.value) for one in inputs if one.value is not None)
        case ast.Let(bindings=bindings):
            yield from ((None, name, value) for name, value in bindings)
        case ast.Input(name=name, value=value) if value is not None:
            yield None, name, value
        case ast.Define(name=name, value=value) | ast.Assign(name=name, value=value):
            yield None, name, value


def _bind_arguments(
    function: ast.Node,
    args: Sequence[ast.Node],
    keywords: Iterable[tuple[str, ast.Node]],
    parameters: Mapping[str, tuple[str, ...]],
) -> Iterator[tuple[str | None, str, ast.Node]]:
    if isinstance(function, ast.Lambda):
        yield from ((None, name, value) for name, value in zip(function.parameters, args, strict=False))
    elif isinstance(function, ast.Variable) and function.name in parameters:
        by_position = zip(parameters[function.name], args, strict=False)
        yield from ((function.name, name, value) for name, value in [*by_position, *keywords])


def _variables_in(node: Any) -> Iterator[str]:
    """Yield the variables that a value consists of: one variable, or the variables of a list."""
    match node:
        case ast.Variable(name=name):
            yield name
        case ast.Text(parts=[ast.Variable(name=name)]):
            yield name
        case ast.FunctionCall(func_name="list", args=args):
            for one in args:
                yield from _variables_in(one)


_Strings = Mapping[str, str | None]
"""Constant strings by name; None where the program computes the value."""

_UNCERTAIN = (
    ast.And,
    ast.Cond,
    ast.If,
    ast.IterativeLoop,
    ast.Lambda,
    ast.Loop,
    ast.Or,
    ast.Quote,
    ast.Reduce,
    ast.TaskCond,
    ast.Template,
    ast.Try,
)
"""Forms with parts that are evaluated conditionally or not at all."""


_MAX_CALLS = 1_000
"""How many calls of templates are analysed: a template may call itself with a new text each time."""


class RequiredFile(Struct, frozen=True):
    """A file that must exist, and the location of the task that reads it."""

    path: str
    span: Span


def find_required_files(
    forms: Sequence[ast.Node], definitions: Iterable[ast.Node], given: Mapping[str, Any]
) -> list[RequiredFile]:
    """Return the files that the program always reads and does not create, in the order of reading.

    `definitions` are the forms of libraries, `given` the inputs by name. The result is empty if the program
    runs scripts or tools, which may create files. It is also empty for a program with a single model task:
    that task reports a missing file itself, before anything is paid for.
    """
    named = {
        form.name: form for form in (*definitions, *forms) if isinstance(form, ast.Template | ast.Define)
    }
    parts = list(structs_in([*forms, *reachable_definitions(forms, named).values()]))
    if any(_may_create_files(part, named) for part in parts):
        return []
    if sum(isinstance(part, ast.Atomic) for part in parts) < 2:
        return []
    changing = {name for part in parts for name in _rebound_names(part)}
    known = {name: value for name, value in given.items() if isinstance(value, str) and name not in changing}
    return list(dict.fromkeys(_Walk(named).files(forms, known)))


def _may_create_files(part: Struct, named: Mapping[str, object]) -> bool:
    if isinstance(part, ast.FunctionCall):
        return ":" in part.func_name and part.func_name not in named
    if isinstance(part, ast.FilePaths):
        return part.source == "command"
    if isinstance(part, ast.TaskNode):
        return isinstance(part, ast.Script) or bool(part.tools) or part.subtype in AIDER_SUBTYPES
    return False


def _rebound_names(part: Struct) -> Iterator[str]:
    """Yield the names that a node may bind again, so that their given values are not certain."""
    if isinstance(part, ast.Define | ast.Assign):
        yield part.name
    elif isinstance(part, ast.TaskNode) and part.output_slot is not None:
        yield part.output_slot


class _Walk:
    """Walks over the nodes that are always evaluated, with the constant strings of the names in scope."""

    def __init__(self, named: Mapping[str, ast.Template | ast.Define]) -> None:
        self._named = named
        self._called: set[tuple[str, tuple[tuple[str, str | None], ...]]] = set()

    def files(self, forms: Sequence[ast.Node], known: _Strings) -> Iterator[RequiredFile]:
        """Yield the required files in program order; `known` are the constant strings of global names."""
        stack: list[tuple[Any, _Strings]] = [(form, known) for form in reversed(forms)]
        while stack:
            node, names = stack.pop()
            if isinstance(node, tuple | list):
                stack.extend((one, names) for one in reversed(node))
            elif isinstance(node, Struct) and not isinstance(node, _UNCERTAIN):
                inside = _names_inside(node, names)
                if isinstance(node, ast.Atomic) and (files := node.file_paths) and files.source == "literal":
                    for position, path in enumerate(files.paths):
                        text = _known_string(path, inside)
                        if text is not None and position not in files.optional:
                            yield RequiredFile(text, node.span)
                if isinstance(node, ast.FunctionCall | ast.Reference):
                    stack.extend(self._called_body(node, names))
                fields = [getattr(node, name) for name in node.__struct_fields__ if name != "span"]
                stack.extend((field, inside) for field in reversed(fields))

    def _called_body(
        self, node: ast.FunctionCall | ast.Reference, names: _Strings
    ) -> Iterator[tuple[ast.Node, _Strings]]:
        """Yield the body of the called template with the names in its scope.

        Yield nothing if the call replaces the files of the template, or was analysed before.
        """
        args: tuple[ast.Node, ...] = ()
        if isinstance(node, ast.Reference):
            name = node.ref
            keywords = [(one.name, one.value) for one in node.inputs if one.value is not None]
            has_files = node.file_paths is not None
        else:
            name, args, keywords = node.func_name, node.args, list(node.keywords)
            has_files = "files" in dict(keywords)
        template = self._named.get(name)
        if not isinstance(template, ast.Template) or has_files or name in names:
            return  # a name in `names` shadows the template
        parameters = {one.name: _known_string(one.default, names) for one in template.parameters}
        given = [*zip(parameters, args, strict=False), *keywords]
        parameters |= {to: _known_string(value, names) for to, value in given}
        call = (name, tuple(sorted(parameters.items(), key=lambda item: item[0])))
        if call not in self._called and len(self._called) < _MAX_CALLS:
            self._called.add(call)
            yield template.body, {**names, **parameters}


def _names_inside(node: Struct, names: _Strings) -> _Strings:
    """Return the constant strings of the names in scope inside a node."""
    if isinstance(node, ast.Let):
        return {**names, **{name: _known_string(value, names) for name, value in node.bindings}}
    if isinstance(node, ast.TaskNode) and not isinstance(node, ast.Reference):
        inputs = {one.name: _known_string(one.value, names) for one in node.inputs if one.value is not None}
        return {**names, **inputs, "input": None}
    return names


def _known_string(node: Any, names: _Strings) -> str | None:
    """Return the constant string that a node evaluates to, or None."""
    match node:
        case ast.Literal(value=str(text)) | str(text):
            return text
        case ast.Variable(name=name):
            return names.get(name)
        case ast.Text(parts=parts):
            texts = [_known_string(part, names) for part in parts]
            return None if None in texts else "".join(filter(None, texts))
    return None
