"""A TaskError as XML: the error response of the specification's protocols."""

import json
import re
from importlib.resources import files
from typing import Any
from xml.etree import ElementTree as ET

import msgspec

from weft.evaluator.results import TaskError

_ORDER = ("resource", "reason", "message", "path", "invalidModel", "location", "metrics", "details")
"""The fields in the order of the schema; the others follow: `violations`, `content`, `notes`."""

_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document can have."""


def error_xml(error: TaskError) -> str:
    """Return the error as an XML document that fits `error_schema`."""
    fields: dict[str, Any] = msgspec.to_builtins(error)
    root = ET.Element("task_error")
    parent = ET.SubElement(root, fields.pop("type").lower())
    for name in (*_ORDER, "violations", "content", "notes"):
        if fields.get(name) is not None:
            _add(parent, name, fields[name])
    ET.indent(root)
    return ET.tostring(root, encoding="unicode")


def error_schema() -> str:
    """Return the XML Schema of errors."""
    return files("weft.evaluator").joinpath("task_error.xsd").read_text(encoding="utf-8")


def _add(parent: ET.Element, name: str, value: Any) -> None:
    if isinstance(value, list):
        for one in value:
            ET.SubElement(parent, "violation").text = _text(str(one))
        return
    element = ET.SubElement(parent, "invalid_model" if name == "invalidModel" else name)
    if not isinstance(value, dict):
        element.text = _text(value if isinstance(value, str) else json.dumps(value))
        return
    for key, fact in value.items():
        is_text = isinstance(fact, str)
        one = ET.SubElement(element, "fact", {"name": _text(key), "type": "text" if is_text else "json"})
        one.text = _text(fact if is_text else json.dumps(fact, ensure_ascii=False))


def _text(value: str) -> str:
    return _NO_XML.sub("\ufffd", value)
