"""The XML syntax: parses documents into the syntax tree and validates them against weft.xsd."""

from weft.language.xml.documents import read_xml

__all__ = ["read_xml"]
