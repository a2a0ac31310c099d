"""What weft.xsd says: which elements, attributes and values there are, and where.

The reader takes its words from the schema, so there is one list of them, and a mistake gets the nearest word.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

from lxml import etree
from msgspec import Struct

_XS = "{http://www.w3.org/2001/XMLSchema}"
_REFERABLE = ("group", "attributeGroup")


class AttributeRule(Struct, frozen=True):
    """What an attribute may be."""

    values: tuple[str, ...]
    """Empty: any text."""
    is_required: bool


class ElementRule(Struct, frozen=True):
    """What an element of a type may have."""

    children: Mapping[str, str]
    """By name, the name of their type."""
    attributes: Mapping[str, AttributeRule]
    content: Literal["elements", "text", "mixed"]
    values: tuple[str, ...]
    """What its text may be; empty: any text."""


class Vocabulary(Struct, frozen=True):
    """The schema."""

    roots: Mapping[str, str]
    """The elements a document can be, with the names of their types."""
    types: Mapping[str, ElementRule]
    schema: etree.XMLSchema


_Named = dict[tuple[str, str], etree._Element]  # noqa: SLF001  lxml has no public name for it


@cache
def vocabulary() -> Vocabulary:
    """The words of weft.xsd."""
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
    """The declarations in a declaration, with those of the groups it refers to."""
    for part in declared.iterdescendants(*(f"{_XS}{name}" for name in ("element", "attribute", "extension"))):
        yield part
    for part in declared.iterdescendants(*(f"{_XS}{name}" for name in _REFERABLE)):
        yield from _parts(named[_local(part), part.get("ref", "")], named)


def _values(type_name: str, named: _Named) -> tuple[str, ...]:
    declared = named.get(("simpleType", type_name))
    found = declared.iterdescendants(f"{_XS}enumeration") if declared is not None else ()
    return tuple(one.get("value", "") for one in found)


def _local(element: etree._Element) -> str:
    return etree.QName(element).localname
