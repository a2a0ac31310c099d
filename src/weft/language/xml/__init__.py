"""The XML surface: documents to the syntax tree, by the rules of weft.xsd and our own."""

from weft.language.xml.documents import read_xml

__all__ = ["read_xml"]
