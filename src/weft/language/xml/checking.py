"""A document against the words of the schema, with the nearest word for every mistake.

What is wrong is noted and taken out, so that the reader meets only what it knows.
"""

from typing import Final

from weft.language.suggestions import nearest
from weft.language.xml.elements import Element
from weft.language.xml.found import Found
from weft.language.xml.vocabulary import ElementRule, vocabulary
from weft.language.xml.words import BLANK, shown

REPEATABLE: Final = frozenset(
    {"task", "call", "cond", "director_evaluator_loop", "template", "input", "path", "arg", "case", "param"}
)
"""Elements that may stand more than once in their parent; XSD 1.0 cannot say it where the order is free."""

_FOREIGN: Final = ("xml:", "xmlns:", "xsi:noNamespaceSchemaLocation", "xsi:schemaLocation")
"""Attributes that are not ours and do no harm: a declaration, and what editors look for."""


def check_elements(root: Element, found: Found) -> None:
    """Note whatever the schema does not allow, and take it out."""
    words = vocabulary()
    waiting = [(root, words.roots[root.tag])]
    while waiting:
        element, type_name = waiting.pop()
        rule = words.types[type_name]
        _check_attributes(element, rule, found)
        _check_children(element, rule, found)
        _check_text(element, rule, found)
        waiting.extend((child, rule.children[child.tag]) for child in element.children)


def _check_attributes(element: Element, rule: ElementRule, found: Found) -> None:
    for name in list(element.attributes):
        known = rule.attributes.get(name)
        if known is None:
            if not name.startswith(_FOREIGN):
                found.add(element.span, "unknown-attribute", _unknown_attribute(name, element, rule))
                element.is_damaged = True
            del element.attributes[name]
        elif not _check_value(element, known.values, element.attributes[name], f"{name} of ", found):
            del element.attributes[name]
            element.is_damaged = True
        elif known.values:
            element.attributes[name] = element.attributes[name].strip(BLANK)
    for name, known in rule.attributes.items():
        if known.is_required and name not in element.attributes and not element.is_damaged:
            found.add(element.span, "missing-field", f'<{element.tag}> needs an attribute: {name}="..."')


def _check_children(element: Element, rule: ElementRule, found: Found) -> None:
    kept: list[Element] = []
    first: dict[str, Element] = {}
    for child in element.children:
        if child.tag not in rule.children:
            found.add(child.span, "unknown-element", _unknown_element(child, element, rule))
        elif child.tag in first and child.tag not in REPEATABLE:
            message = f"<{child.tag}> is given twice, first on line {first[child.tag].span.line}; remove one"
            found.add(child.span, "duplicate-name", message)
        else:
            first[child.tag] = child
            kept.append(child)
    if len(kept) < len(element.children):
        element.is_damaged = True
        element.children = kept


def _check_text(element: Element, rule: ElementRule, found: Found) -> None:
    text = element.text.strip(BLANK)
    if rule.content == "elements" and text:
        message = f"<{element.tag}> holds elements and no text, but here is '{shown(text)}'"
        found.add(element.span, "bad-value", message + "; put the text in an element")
    elif rule.values and not _check_value(element, rule.values, text, "", found):
        element.pieces = []
        element.is_damaged = True


def _check_value(element: Element, values: tuple[str, ...], text: str, what: str, found: Found) -> bool:
    """Whether the text is one of the values, or may be anything."""
    if not values or text.strip(BLANK) in values:
        return True
    words = " or ".join(f'"{value}"' for value in values)
    message = f"{what}<{element.tag}> must be {words}, not '{shown(text)}'"
    found.add(element.span, "bad-value", message + nearest(shown(text), values))
    return False


def _unknown_element(child: Element, element: Element, rule: ElementRule) -> str:
    where = f"<{shown(child.tag)}> is unknown in <{element.tag}>"
    if ":" in child.tag:
        return f"{where}; elements of weft have no namespace: remove the prefix"
    if rule.content == "text":
        return f"{where}, which holds text: write &lt; for <, or put the text in <![CDATA[...]]>"
    if child.tag in rule.attributes:
        return f'{where}; write it as an attribute: {child.tag}="..."'
    return where + (nearest(shown(child.tag), rule.children) or _expected(rule))


def _unknown_attribute(name: str, element: Element, rule: ElementRule) -> str:
    if name == "xmlns":
        return "elements of weft have no namespace; remove xmlns"
    where = f"attribute '{shown(name)}' is unknown in <{element.tag}>"
    if name in rule.children:
        return f"{where}; write it as an element: <{name}>...</{name}>"
    return where + nearest(shown(name), rule.attributes)


def _expected(rule: ElementRule) -> str:
    return (
        f"; it can have: {', '.join(sorted(rule.children))}"
        if rule.children
        else "; it has no elements inside"
    )
