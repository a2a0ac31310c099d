"""Check a document against `weft.xsd`, and suggest the nearest name for each mistake.

All names come from the schema file. Elements and attributes with problems are removed, so that the functions
that build nodes only see known ones.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, Literal

from lxml import etree
from msgspec import Struct

from weft.language.diagnostics import Findings, nearest
from weft.language.xml.elements import Element
from weft.language.xml.text import BLANK, shown

_XS = "{http://www.w3.org/2001/XMLSchema}"
_GROUP_KINDS = ("group", "attributeGroup")


class AttributeRule(Struct, frozen=True):
    """Constraints of an attribute."""

    values: tuple[str, ...]
    """Allowed values; empty: any text."""
    is_required: bool


class ElementRule(Struct, frozen=True):
    """Constraints of an element type."""

    children: Mapping[str, str]
    """Type names of child elements, by element name."""
    attributes: Mapping[str, AttributeRule]
    content: Literal["elements", "text", "mixed"]
    values: tuple[str, ...]
    """Allowed texts; empty: any text."""


class Vocabulary(Struct, frozen=True):
    """The contents of weft.xsd."""

    roots: Mapping[str, str]
    """Type names of the possible root elements, by element name."""
    types: Mapping[str, ElementRule]
    schema: etree.XMLSchema


_Named = dict[tuple[str, str], etree._Element]  # noqa: SLF001  lxml has no public name for it
"""Top-level declarations of the schema file, by kind and name."""


@cache
def vocabulary() -> Vocabulary:
    """Parse weft.xsd, once."""
    root = etree.fromstring(files("weft.language.xml").joinpath("weft.xsd").read_bytes())
    roots = {one.get("name", ""): one.get("type", "") for one in root.iterchildren(f"{_XS}element")}
    named = {(_local(one), one.get("name", "")): one for one in root.iterchildren("*")}
    types = {name: _rule(one, named, roots) for (kind, name), one in named.items() if kind == "complexType"}
    return Vocabulary(roots, types, etree.XMLSchema(root))


def _rule(declared: etree._Element, named: _Named, roots: Mapping[str, str]) -> ElementRule:
    children: dict[str, str] = {}
    attributes: dict[str, AttributeRule] = {}
    base = ""
    for part in _parts(declared, named):
        name = part.get("name", "")
        match _local(part):
            case "element":
                referred = part.get("ref")
                children[referred or name] = roots[referred] if referred else part.get("type", "")
            case "attribute":
                values = _values(part.get("type", ""), named)
                attributes[name] = AttributeRule(values, part.get("use") == "required")
            case "extension":
                base = part.get("base", "")
    is_mixed = declared.get("mixed") == "true"
    return ElementRule(
        children, attributes, "mixed" if is_mixed else "text" if base else "elements", _values(base, named)
    )


def _parts(declared: etree._Element, named: _Named) -> Iterator[etree._Element]:
    """Yield the declarations inside a declaration, including those of referenced groups."""
    for part in declared.iterdescendants(*(f"{_XS}{name}" for name in ("element", "attribute", "extension"))):
        yield part
    for part in declared.iterdescendants(*(f"{_XS}{name}" for name in _GROUP_KINDS)):
        yield from _parts(named[_local(part), part.get("ref", "")], named)


def _values(type_name: str, named: _Named) -> tuple[str, ...]:
    declared = named.get(("simpleType", type_name))
    found = declared.iterdescendants(f"{_XS}enumeration") if declared is not None else ()
    return tuple(one.get("value", "") for one in found)


def _local(element: etree._Element) -> str:
    return etree.QName(element).localname


REPEATABLE: Final = frozenset(
    {"task", "call", "cond", "director_evaluator_loop", "template", "input", "path", "arg", "case", "param"}
)
"""Elements that may occur more than once in their parent; XSD 1.0 cannot express it where order is free."""

_IGNORED_ATTRIBUTES: Final = ("xml:", "xmlns:", "xsi:noNamespaceSchemaLocation", "xsi:schemaLocation")
"""Beginnings of attributes that are ignored: namespace declarations, and hints for editors."""


def check_elements(root: Element, found: Findings) -> None:
    """Report elements, attributes and values that the schema does not allow, and remove them."""
    words = vocabulary()
    waiting = [(root, words.roots[root.tag])]
    while waiting:
        element, type_name = waiting.pop()
        rule = words.types[type_name]
        _check_attributes(element, rule, found)
        _check_children(element, rule, found)
        _check_text(element, rule, found)
        waiting.extend((child, rule.children[child.tag]) for child in element.children)


def _check_attributes(element: Element, rule: ElementRule, found: Findings) -> None:
    for name in list(element.attributes):
        known = rule.attributes.get(name)
        if known is None:
            if not name.startswith(_IGNORED_ATTRIBUTES):
                found.note(element.span, "unknown-attribute", _unknown_attribute(name, element, rule))
                element.is_damaged = True
            del element.attributes[name]
        elif not _check_value(element, known.values, element.attributes[name], f"{name} of ", found):
            del element.attributes[name]
            element.is_damaged = True
        elif known.values:
            element.attributes[name] = element.attributes[name].strip(BLANK)
    for name, known in rule.attributes.items():
        if known.is_required and name not in element.attributes and not element.is_damaged:
            found.note(element.span, "missing-field", f'<{element.tag}> needs an attribute: {name}="..."')


def _check_children(element: Element, rule: ElementRule, found: Findings) -> None:
    kept: list[Element] = []
    first: dict[str, Element] = {}
    for child in element.children:
        if child.tag not in rule.children:
            found.note(child.span, "unknown-element", _unknown_element(child, element, rule))
        elif child.tag in first and child.tag not in REPEATABLE:
            message = f"<{child.tag}> is given twice, first on line {first[child.tag].span.line}; remove one"
            found.note(child.span, "duplicate-name", message)
        else:
            first[child.tag] = child
            kept.append(child)
    if len(kept) < len(element.children):
        element.is_damaged = True
        element.children = kept


def _check_text(element: Element, rule: ElementRule, found: Findings) -> None:
    text = element.text.strip(BLANK)
    if rule.content == "elements" and text:
        message = f"<{element.tag}> holds elements and no text, but here is '{shown(text)}'"
        found.note(element.span, "bad-value", message + "; put the text in an element")
    elif rule.values and not _check_value(element, rule.values, text, "", found):
        element.pieces = []
        element.is_damaged = True


def _check_value(element: Element, values: tuple[str, ...], text: str, what: str, found: Findings) -> bool:
    """Return whether the text is one of the allowed values; without values, any text is. Report it if not."""
    if not values or text.strip(BLANK) in values:
        return True
    words = " or ".join(f'"{value}"' for value in values)
    message = f"{what}<{element.tag}> must be {words}, not '{shown(text)}'"
    found.note(element.span, "bad-value", message + nearest(shown(text), values))
    return False


def _unknown_element(child: Element, element: Element, rule: ElementRule) -> str:
    where = f"<{shown(child.tag)}> is unknown in <{element.tag}>"
    if ":" in child.tag:
        return f"{where}; elements of weft have no namespace: remove the prefix"
    if rule.content == "text":
        return f"{where}, which holds text: write &lt; for <, or put the text in <![CDATA[...]]>"
    if child.tag in rule.attributes:
        return f'{where}; write it as an attribute: {child.tag}="..."'
    known = f"can have: {', '.join(sorted(rule.children))}" if rule.children else "has no elements inside"
    return where + (nearest(shown(child.tag), rule.children) or f"; it {known}")


def _unknown_attribute(name: str, element: Element, rule: ElementRule) -> str:
    if name == "xmlns":
        return "elements of weft have no namespace; remove xmlns"
    where = f"attribute '{shown(name)}' is unknown in <{element.tag}>"
    if name in rule.children:
        return f"{where}; write it as an element: <{name}>...</{name}>"
    return where + nearest(shown(name), rule.attributes)
