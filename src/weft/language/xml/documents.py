"""Parse the bytes of an XML document into a program."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from lxml import etree

from weft.gc_tuning import pause_collector
from weft.language.ast import EVALUATION, Condition, Node, Program, TaskCase, TaskCond
from weft.language.diagnostics import (
    Findings,
    InvalidProgram,
    LanguageProblem,
    PartialProgram,
    invalid_program,
    sort_problems,
)
from weft.language.source import Source, Span
from weft.language.traversal import raise_recursion_limit
from weft.language.xml.elements import Element, decode, parse_elements
from weft.language.xml.reader import Reading, child_text
from weft.language.xml.schema import check_elements, vocabulary
from weft.language.xml.tasks import output_slots, read_task
from weft.language.xml.templates import read_call, read_only_node, read_template
from weft.language.xml.text import MAX_FOUND


@pause_collector()
def read_xml(source: Source, content: bytes) -> Program:
    """Parse a document; raise InvalidProgram with all of its problems.

    Locations of nodes are lines and columns of the decoded text.
    """
    try:
        return _read(source, content)
    except InvalidProgram as error:
        error.xml_fault = error.xml_fault or "invalid"
        raise


def _read(source: Source, content: bytes) -> Program:
    try:
        document = decode(source.name, content)
        root = parse_elements(document)
    except InvalidProgram as error:
        error.xml_fault = "malformed" if error.found[0].code == "syntax-error" else None
        raise
    found = Findings(most=MAX_FOUND)
    with raise_recursion_limit():
        check_elements(root, found)
        program = _read_program(root, Reading(found, frozenset(), _read_node))
    if found.problems:
        raise InvalidProgram(sort_problems(found.problems), partial=_partial(root, program, found.problems))
    _validate(document)
    return program


def _read_program(root: Element, reading: Reading) -> Program:
    forms: list[Node] = []
    templates: dict[str, int] = {}
    for element in root.children if root.tag == "program" else [root]:
        if element.tag != "template":
            forms.append(reading.node(element))
            reading = reading.within(output_slots(forms[-1]))
            continue
        template = read_template(element, reading)
        if template.name in templates:
            message = f"template '{template.name}' is given twice, first on line {templates[template.name]}"
            reading.found.note(element.span, "duplicate-name", message)
        templates.setdefault(template.name, element.span.line)
        forms.append(template)
    if not forms:
        reading.missing(root, "<program> is empty")
    return Program(tuple(forms))


def _partial(root: Element, program: Program, problems: Sequence[LanguageProblem]) -> PartialProgram | None:
    """Return the children of a <program> that have no problems.

    Return None if the root is not a <program>, or if the <program> itself has a problem.
    """
    if root.tag != "program" or root.is_damaged or len(root.children) != len(program.forms):
        return None
    starts = [(child.span.line, child.span.column) for child in root.children]
    wrong = {bisect_right(starts, (one.span.line, one.span.column)) - 1 for one in problems}
    if -1 in wrong:  # in the <program> itself
        return None
    forms = tuple(form for index, form in enumerate(program.forms) if index not in wrong)
    return PartialProgram(Program(forms), frozenset(_words_in([root.children[index] for index in wrong])))


def _words_in(elements: Sequence[Element]) -> Iterator[str]:
    """Yield each short attribute value and text of the elements: it may be a name that they bind."""
    pending = list(elements)
    while pending:
        one = pending.pop()
        pending.extend(one.children)
        yield from (word.strip() for word in (*one.attributes.values(), one.text) if len(word) < 100)


def _read_node(element: Element, reading: Reading) -> Node:
    match element.tag:
        case "call":
            return read_call(element, reading)
        case "cond":
            return _read_cond(element, reading)
    return read_task(element, reading)


def _read_cond(element: Element, reading: Reading) -> TaskCond:
    cases = [child for child in element.children if child.tag == "case"]
    criteria = child_text(element, "criteria") or None
    inside = reading if criteria is None else reading.within([EVALUATION])
    return TaskCond(
        span=element.span, cases=tuple(_read_case(case, inside) for case in cases), criteria=criteria
    )


def _read_case(element: Element, reading: Reading) -> TaskCase:
    text = element.attributes.get("test", "")
    span = element.value_spans.get("test", element.span)
    test = reading.condition(text, span) if "test" in element.attributes else Condition(text="true")
    return TaskCase(test, read_only_node(element, reading), element.span)


def _validate(document: Source) -> None:
    """Validate a document that passed our own checks against the schema, which has the final say.

    libxml2's limit of 10 MB per text is lifted: length, depth and DOCTYPE are checked before.
    """
    parser = etree.XMLParser(
        encoding="utf-8", resolve_entities=False, load_dtd=False, no_network=True, huge_tree=True
    )
    try:
        tree = etree.fromstring(document.text.encode(), parser)
    except etree.XMLSyntaxError as error:
        raise invalid_program(
            Span(document, error.lineno or 1, 0), "syntax-error", error.msg or "not XML"
        ) from None
    schema = vocabulary().schema
    if not schema.validate(tree):
        log: Any = schema.error_log  # its type stub cannot index entries
        first = log[0]
        raise invalid_program(Span(document, first.line, 0), "schema-error", first.message)
