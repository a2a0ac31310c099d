"""Parse templates and calls."""

import re

from weft.language.ast import FunctionCall, Node, Template
from weft.language.builtins import is_reserved
from weft.language.sexp.program import SPECIAL_FORMS
from weft.language.task_fields import Parameter
from weft.language.xml.elements import Element
from weft.language.xml.fields import read_argument, read_default, read_shape
from weft.language.xml.reader import NODES, NOTHING, Reading
from weft.language.xml.text import BLANK, CALLED, IDENTIFIER, TEMPLATE_NAME


def read_template(element: Element, reading: Reading) -> Template:
    """Parse a template; its body sees only its parameters."""
    name = reading.setting(element, "name")
    if name is None:
        reading.missing(element, '<template> needs a name: name="..."')
    parameters = _read_parameters(element, reading)
    returns = reading.setting(element, "returns")
    return Template(
        span=element.span,
        name=_bound_name(element, name, "template", TEMPLATE_NAME, reading) if name is not None else "",
        parameters=parameters,
        body=read_only_node(element, reading.only_within(one.name for one in parameters)),
        returns=read_shape(element, returns, "returns", reading) if returns else None,
    )


def read_call(element: Element, reading: Reading) -> FunctionCall:
    """Parse a call with positional and keyword arguments."""
    name = reading.setting(element, "template")
    if name is None:
        reading.missing(element, '<call> needs the name of a template, tool or built-in: template="..."')
    args: list[Node] = []
    keywords: dict[str, Node] = {}
    for child in element.children:
        if child.tag != "arg":
            continue
        value = read_argument(child, reading)
        if "name" not in child.attributes:
            args.append(value)
            continue
        keyword = reading.name(child, child.attributes["name"], "argument")
        if keyword in keywords:
            reading.found.note(child.span, "duplicate-name", f"the argument '{keyword}' is given twice")
        keywords[keyword] = value
    return FunctionCall(
        span=element.span,
        func_name=reading.name(element, name, "template", CALLED) if name is not None else "",
        args=tuple(args),
        keywords=tuple(keywords.items()),
    )


def read_only_node(element: Element, reading: Reading) -> Node:
    """Parse the only node inside an element; report further nodes, or that there is no node."""
    nodes = [child for child in element.children if child.tag in NODES]
    for extra in nodes[1:]:
        message = f"<{element.tag}> has one task; put several in a task of type sequential"
        reading.found.note(extra.span, "bad-value", message)
    if nodes:
        return reading.node(nodes[0])
    reading.missing(element, f"<{element.tag}> needs a <task>, <call>, <cond> or <director_evaluator_loop>")
    return NOTHING


def _bound_name(element: Element, text: str, what: str, pattern: re.Pattern[str], reading: Reading) -> str:
    """Return a template's or parameter's name; report a special form, or a template named as a built-in."""
    name = reading.name(element, text, what, pattern)
    if name in SPECIAL_FORMS or (what == "template" and is_reserved(name)):
        message = f"{what} '{name}' is the name of a built-in and cannot be bound; choose another name"
        reading.found.note(element.span, "reserved-name", message)
    return name


def _read_parameters(element: Element, reading: Reading) -> tuple[Parameter, ...]:
    """Return the parameters of the `params` attribute, then those of `param` elements."""
    parameters: dict[str, Parameter] = {}
    written = reading.setting(element, "params")
    declared = [(element, Parameter(name.strip(BLANK))) for name in written.split(",")] if written else []
    declared += [
        (child, _read_parameter(child, reading))
        for child in element.children
        if child.tag == "param" and "name" in child.attributes
    ]
    for holder, parameter in declared:
        name = _bound_name(holder, parameter.name, "parameter", IDENTIFIER, reading)
        if name in parameters:
            reading.found.note(holder.span, "duplicate-name", f"parameter '{name}' is given twice")
        parameters[name] = parameter
    return tuple(parameters.values())


def _read_parameter(element: Element, reading: Reading) -> Parameter:
    name, type_name = element.attributes["name"].strip(BLANK), element.attributes.get("type")
    shape = read_shape(element, type_name, "type", reading) if type_name is not None else None
    default = element.attributes.get("default")
    if default is None:
        return Parameter(name, shape)
    return Parameter(name, shape, read_default(element, default, shape, reading))
