"""Which names of a program hold paths of files, and which files it certainly reads."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from weft.language.ast import (
    And,
    Apply,
    Assign,
    Atomic,
    Cond,
    Define,
    FilePaths,
    FunctionCall,
    If,
    Input,
    IterativeLoop,
    Lambda,
    Let,
    Literal,
    Loop,
    Node,
    Or,
    Quote,
    Reduce,
    Reference,
    Script,
    TaskCond,
    TaskNode,
    Template,
    Text,
    Try,
    Variable,
)
from weft.language.source import Span
from weft.language.task_fields import AIDER_SUBTYPES
from weft.language.traversal import structs_in, used_names

_APPLYING = frozenset({"map", "filter", "for-each", "apply"})
"""Built-ins that hand the elements of lists, or lists, to a function."""

_Name = tuple[str, str]
"""The template that has a parameter of that name, or "", and the name."""


def path_names(nodes: Sequence[Node]) -> frozenset[str]:
    """Return the names whose values are paths of files.

    They fill a path of `file_paths` alone, stand in `:files` of a call, or are handed on, by themselves or in
    a list, to a name whose value is one: a parameter, an input, what `let` binds. Names of templates are
    told apart; of two local names that are the same, both count.
    """
    found: set[_Name] = set()
    handed: list[tuple[_Name, _Name]] = []
    parameters = _parameters(nodes)
    for owner, body in _bodies(nodes):
        own = frozenset(parameters.get(owner, ()))
        for one in structs_in([body]):
            if isinstance(one, FilePaths):
                found |= {_named(name, owner, own) for path in one.paths for name in _handed(path)}
            elif isinstance(one, FunctionCall):
                files = [value for keyword, value in one.keywords if keyword == "files"]
                variables = [node.name for node in structs_in(files) if isinstance(node, Variable)]
                found |= {_named(name, owner, own) for name in variables}
            handed += [
                (_named(name, owner, own) if to is None else (to, name), _named(value, owner, own))
                for to, name, node in _bound(one, parameters)
                for value in _handed(node)
            ]
    while more := {value for name, value in handed if name in found} - found:
        found |= more
    return frozenset(name for owner, name in found if not owner)


def _named(name: str, owner: str, own: frozenset[str]) -> _Name:
    return (owner, name) if name in own else ("", name)


def _parameters(nodes: Sequence[Node]) -> dict[str, tuple[str, ...]]:
    """Return the names of the parameters of every template and named function."""
    found: dict[str, tuple[str, ...]] = {}
    for one in structs_in(nodes):
        if isinstance(one, Template):
            found[one.name] = tuple(parameter.name for parameter in one.parameters)
        elif isinstance(one, Define) and isinstance(one.value, Lambda):
            found[one.name] = one.value.parameters
    return found


def _bodies(nodes: Iterable[Node]) -> Iterator[tuple[str, Node]]:
    """Yield what each template and function of the program does, and everything else, with its owner."""
    for node in nodes:
        if isinstance(node, Template):
            yield node.name, node.body
        elif isinstance(node, Define) and isinstance(node.value, Lambda):
            yield node.name, node.value.body
        else:
            yield "", node


def _bound(node: Struct, parameters: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str | None, str, Node]]:
    """Yield names that a node binds, each with its value and the template or function whose name it is."""
    match node:
        case FunctionCall(func_name=name, args=[function, *args]) if name in _APPLYING:
            yield from _called(function, args, (), parameters)
        case FunctionCall(func_name=name, args=args, keywords=keywords):
            yield from _called(Variable(name=name), args, keywords, parameters)
        case Apply(function=function, args=args, keywords=keywords):
            yield from _called(function, args, keywords, parameters)
        case Reference(ref=ref, inputs=inputs):
            yield from ((ref, one.name, one.value) for one in inputs if one.value is not None)
        case Let(bindings=bindings):
            yield from ((None, name, value) for name, value in bindings)
        case Input(name=name, value=value) if value is not None:
            yield None, name, value
        case Define(name=name, value=value) | Assign(name=name, value=value):
            yield None, name, value


def _called(
    function: Node,
    args: Sequence[Node],
    keywords: Iterable[tuple[str, Node]],
    parameters: Mapping[str, tuple[str, ...]],
) -> Iterator[tuple[str | None, str, Node]]:
    if isinstance(function, Lambda):
        yield from ((None, name, value) for name, value in zip(function.parameters, args, strict=False))
    elif isinstance(function, Variable) and function.name in parameters:
        by_position = zip(parameters[function.name], args, strict=False)
        yield from ((function.name, name, value) for name, value in [*by_position, *keywords])


def _handed(node: Any) -> Iterator[str]:
    """Yield the variables whose values a node has: one, or those of a list."""
    match node:
        case Variable(name=name):
            yield name
        case Text(parts=[Variable(name=name)]):
            yield name
        case FunctionCall(func_name="list", args=args):
            for one in args:
                yield from _handed(one)


_Known = Mapping[str, str | None]
"""The texts that names stand for; None where the program computes them."""

_UNCERTAIN = (And, Cond, If, IterativeLoop, Lambda, Loop, Or, Quote, Reduce, TaskCond, Template, Try)
"""Forms of which nothing, or not everything, is performed whatever happens."""


_MAX_CALLS = 1_000
"""Templates that call themselves with ever other texts never end."""


class CertainFile(Struct, frozen=True):
    """A file that must be there, and the task that names it."""

    path: str
    span: Span


def certain_files(
    forms: Sequence[Node], definitions: Iterable[Node], given: Mapping[str, Any]
) -> list[CertainFile]:
    """Return the files that the program certainly reads and does not make itself, in the order of asking.

    `definitions` are those of libraries, `given` the values of names. Nothing is certain of a program that
    runs scripts or tools, which may make a file. The file of a single task is left to that task: nothing is
    paid for before it.
    """
    named = {form.name: form for form in (*definitions, *forms) if isinstance(form, Template | Define)}
    parts = list(structs_in([*forms, *_reached(forms, named)]))
    if any(_makes_files(part, named) for part in parts):
        return []
    if sum(isinstance(part, Atomic) for part in parts) < 2:
        return []
    changing = {name for part in parts for name in _bound_late(part)}
    known = {name: value for name, value in given.items() if isinstance(value, str) and name not in changing}
    return list(dict.fromkeys(_Walk(named).files(forms, known)))


def _reached(forms: Sequence[Node], named: Mapping[str, Template | Define]) -> list[Node]:
    reached: dict[str, Node] = {}
    fresh: Sequence[Node] = forms
    while fresh:
        used = used_names(fresh)
        wanted = named.keys() if used.is_choosing else (used.called | used.mentioned) & named.keys()
        more = {name: named[name] for name in named if name in wanted and name not in reached}
        reached |= more
        fresh = list(more.values())
    return list(reached.values())


def _makes_files(part: Struct, named: Mapping[str, object]) -> bool:
    if isinstance(part, FunctionCall):
        return ":" in part.func_name and part.func_name not in named
    if isinstance(part, FilePaths):
        return part.source == "command"
    if isinstance(part, TaskNode):
        return isinstance(part, Script) or bool(part.tools) or part.subtype in AIDER_SUBTYPES
    return False


def _bound_late(part: Struct) -> Iterator[str]:
    """Yield the names that a program binds where they stand for something else before."""
    if isinstance(part, Define | Assign):
        yield part.name
    elif isinstance(part, TaskNode) and part.output_slot is not None:
        yield part.output_slot


class _Walk:
    """Walks over what is performed whatever happens, with the texts that names stand for."""

    def __init__(self, named: Mapping[str, Template | Define]) -> None:
        self._named = named
        self._called: set[tuple[str, tuple[tuple[str, str | None], ...]]] = set()

    def files(self, forms: Sequence[Node], known: _Known) -> Iterator[CertainFile]:
        """Yield the files in the order of the program."""
        stack: list[tuple[Any, _Known]] = [(form, known) for form in reversed(forms)]
        while stack:
            node, names = stack.pop()
            if isinstance(node, tuple | list):
                stack.extend((one, names) for one in reversed(node))
            elif isinstance(node, Struct) and not isinstance(node, _UNCERTAIN):
                inside = _inside(node, names)
                if isinstance(node, Atomic) and node.file_paths is not None:
                    yield from _files_of(node.file_paths, inside, node.span)
                if isinstance(node, FunctionCall | Reference):
                    stack.extend(self._body(node, names))
                fields = [getattr(node, name) for name in node.__struct_fields__ if name != "span"]
                stack.extend((field, inside) for field in reversed(fields))

    def _body(self, node: FunctionCall | Reference, names: _Known) -> Iterator[tuple[Node, _Known]]:
        """Yield the body of a template that is called with its own files, and what its parameters are."""
        args: tuple[Node, ...] = ()
        if isinstance(node, Reference):
            name = node.ref
            keywords = [(one.name, one.value) for one in node.inputs if one.value is not None]
            has_files = node.file_paths is not None
        else:
            name, args, keywords = node.func_name, node.args, list(node.keywords)
            has_files = "files" in dict(keywords)
        template = self._named.get(name)
        if not isinstance(template, Template) or has_files or name in names:
            return  # or something local hides the template
        parameters = {one.name: _known(one.default, names) for one in template.parameters}
        given = [*zip(parameters, args, strict=False), *keywords]
        parameters |= {to: _known(value, names) for to, value in given}
        call = (name, tuple(sorted(parameters.items(), key=lambda item: item[0])))
        if call not in self._called and len(self._called) < _MAX_CALLS:
            self._called.add(call)
            yield template.body, {**names, **parameters}


def _inside(node: Struct, names: _Known) -> _Known:
    """Return what names stand for inside a node."""
    if isinstance(node, Let):
        return {**names, **{name: _known(value, names) for name, value in node.bindings}}
    if isinstance(node, TaskNode) and not isinstance(node, Reference):
        inputs = {one.name: _known(one.value, names) for one in node.inputs if one.value is not None}
        return {**names, **inputs, "input": None}
    return names


def _known(node: Any, names: _Known) -> str | None:
    """Return the text that a node certainly gives."""
    match node:
        case Literal(value=str(text)) | str(text):
            return text
        case Variable(name=name):
            return names.get(name)
        case Text(parts=parts):
            texts = [_known(part, names) for part in parts]
            return None if None in texts else "".join(filter(None, texts))
    return None


def _files_of(files: FilePaths, names: _Known, span: Span) -> Iterator[CertainFile]:
    if files.source == "literal":
        for position, path in enumerate(files.paths):
            text = _known(path, names)
            if text is not None and position not in files.optional:
                yield CertainFile(text, span)
