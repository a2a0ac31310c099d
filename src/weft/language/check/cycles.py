"""Templates that can only call themselves for ever."""

from collections.abc import Container, Iterator, Mapping

from weft.language.check.findings import Findings
from weft.language.tree import Begin, Define, FunctionCall, Node, Reference, Sequential, Template

MAX_SHOWN = 6
"""How many templates of a cycle a message names."""

MAX_CYCLES = 100
"""How many cycles are told."""


def check_cycles(
    own: Mapping[str, Template], known: Mapping[str, Template], shadowed: Container[str], findings: Findings
) -> None:
    """Note cycles of templates of the program each of which always calls the next.

    `shadowed` are global names: a call by such a name does not reach the template.
    """
    done: set[str] = set()
    told: set[str] = set()
    for first in own:
        path: dict[str, Iterator[str]] = {}
        name: str | None = first
        while name is not None or path:
            if name is not None and name not in done and name not in path:
                path[name] = _always_called(known[name], known, shadowed)
            elif name in path and name not in told and len(told) < MAX_CYCLES:
                told.add(name)
                _note(name, list(path), known, findings)
            current = next(reversed(path), None)
            if current is None:
                break
            name = next(path[current], None)
            if name is None:
                done.add(current)
                del path[current]


def _note(name: str, path: list[str], known: Mapping[str, Template], findings: Findings) -> None:
    cycle = path[path.index(name) :]
    shown = [*cycle[:MAX_SHOWN], *(["..."] if len(cycle) > MAX_SHOWN else []), name]
    message = f"these templates can never end: {' -> '.join(shown)}; each always runs the next"
    findings.note(known[name].span, "template-cycle", message)


def _always_called(
    template: Template, known: Mapping[str, Template], shadowed: Container[str]
) -> Iterator[str]:
    """The templates that every call of a template calls in turn."""
    local = {parameter.name for parameter in template.parameters}
    rest: list[Node] = [template.body]
    while rest:
        node = rest.pop()
        if isinstance(node, Reference):
            if node.ref in known:
                yield node.ref
        elif isinstance(node, FunctionCall):
            name = node.func_name
            if name in known and name not in local and name not in shadowed:
                yield name
        elif isinstance(node, Sequential):
            rest.extend(reversed(node.steps))
        elif isinstance(node, Begin):
            local.update(item.name for item in node.items if isinstance(item, Define))
            rest.extend(reversed(node.items))
