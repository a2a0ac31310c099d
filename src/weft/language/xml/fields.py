"""Fields of a task that have parts of their own."""

import re
from typing import Any, Final

from weft.language.context import context_conflict
from weft.language.task_fields import (
    AccumulationFormat,
    ContextAssembly,
    ContextOverrides,
    FilePaths,
    HistorySettings,
    OutputFormat,
)
from weft.language.xml.commands import refuse_placeholders
from weft.language.xml.elements import Element
from weft.language.xml.reading import Reading, plain_text, word
from weft.language.xml.shapes import read_schema
from weft.language.xml.words import BLANK, shown

_FORMATS: Final[dict[str, AccumulationFormat]] = {
    "full_output": "full_output",
    "notes_only": "notes_only",
    "full": "full_output",
    "minimal": "notes_only",
}
_TOOL = re.compile(r"[^\W\d][\w.-]*(:[^\W\d][\w.-]*)?")


def read_context(element: Element, reading: Reading) -> ContextOverrides:
    """What the author wrote of the context settings; notes a conflict between them."""
    holder = element.child("context_management")
    if holder is None:
        return ContextOverrides()
    written: Any = {name: word(holder, name) for name in ("inherit_context", "fresh_context")}
    overrides = ContextOverrides(
        **written,
        accumulate_data=reading.boolean(holder, "accumulate_data"),
        accumulation_format=_FORMATS.get(word(holder, "accumulation_format") or ""),
    )
    problem = context_conflict(overrides, holder.span)
    if problem is not None:
        reading.found.note(problem)
    return overrides


def read_output_format(element: Element, reading: Reading) -> OutputFormat | None:
    """How the answer is read, and its shape."""
    holder = element.child("output_format")
    if holder is None or "type" not in holder.attributes:
        return None
    attribute, inside = holder.attributes.get("schema"), holder.text.strip(BLANK)
    if attribute is not None and inside:
        message = "the schema is given twice, as an attribute and as text; remove one"
        reading.found.add(holder.span, "duplicate-name", message)
    written = inside if attribute is None else attribute
    schema = read_schema(holder, written, reading) if written or attribute is not None else None
    is_json = holder.attributes["type"] == "json"
    if schema not in (None, "string") and not is_json:
        message = f'schema "{shown(str(schema))}" needs type="json": an answer of type text is a string'
        reading.found.add(holder.span, "bad-value", message)
    return OutputFormat("json" if is_json else "text", schema)


def read_file_paths(element: Element, reading: Reading) -> FilePaths | None:
    """Which files belong to the context: what the source says must be what is there."""
    holder = element.child("file_paths")
    if holder is None:
        return None
    source: Any = holder.attributes.get("source", "literal")
    wanted = "path" if source == "literal" else source
    for child in holder.children:
        if child.tag != wanted:
            message = (
                f'<file_paths source="{source}"> has <{wanted}> and no <{child.tag}>; '
                f'write source="{"literal" if child.tag == "path" else child.tag}"'
            )
            reading.found.add(child.span, "bad-value", message)
            return None
    if not holder.children:
        reading.missing(holder, f'<file_paths source="{source}"> needs a <{wanted}>')
        return None
    texts = tuple(reading.text(child) for child in holder.children)
    if source == "literal":
        optional = [n for n, child in enumerate(holder.children) if reading.boolean(child, "optional")]
        return FilePaths(source, paths=texts, optional=tuple(optional))
    if source == "command":
        refuse_placeholders(holder.children[0], texts[0], reading)
    return FilePaths(source, text=texts[0])


def read_relevance(element: Element, reading: Reading) -> tuple[tuple[str, bool], ...]:
    """Which inputs belong to the context."""
    holder = element.child("context_relevance")
    found: dict[str, bool] = {}
    for child in holder.children if holder is not None else ():
        if {"name", "include"} <= child.attributes.keys():
            name = reading.name(child, child.attributes["name"], "input")
            if name in found:
                message = f"input '{name}' is given twice in <context_relevance>; remove one"
                reading.found.add(child.span, "duplicate-name", message)
            found[name] = child.attributes["include"] == "true"
    return tuple(found.items())


def read_assembly(element: Element) -> ContextAssembly | None:
    """Guidance on the order of the context, in the author's words."""
    holder = element.child("context_assembly")
    if holder is None:
        return None
    texts = {child.tag: plain_text(child) for child in holder.children}
    return ContextAssembly(**texts)


def read_history(element: Element, reading: Reading) -> HistorySettings | None:
    """What of the session's history is used and recorded."""
    holder = element.child("history")
    if holder is None:
        return None
    return HistorySettings(
        use_session_history=reading.boolean(holder, "use") is not False,
        history_turns_to_include=reading.count(holder, "turns"),
        record_in_session_history=reading.boolean(holder, "record") is not False,
    )


def read_tools(element: Element, reading: Reading) -> tuple[str, ...]:
    """The names of tools, each once."""
    holder = element.child("tools")
    names = re.findall(r"[^\s,]+", holder.text) if holder is not None else []
    for name in names:
        if holder is not None and not _TOOL.fullmatch(name):
            message = f"'{shown(name)}' is not the name of a tool, such as system:read_files"
            reading.found.add(holder.span, "bad-value", message)
    return tuple(dict.fromkeys(names))
