"""The command of a script: arguments, a line of words, or a shell's text."""

import re
import shlex
from typing import Any

from weft.language.tree import Text
from weft.language.xml.elements import Element
from weft.language.xml.reading import Reading
from weft.language.xml.words import BLANK

_PLACEHOLDER = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_SHELL_WORD = re.compile(r"[|&;]+|[0-9]?(>>?|<)&?\S*")


def read_command(element: Element, reading: Reading) -> dict[str, Any]:
    """The fields `argv` or `shell` of a Script."""
    text = element.text.strip(BLANK)
    if reading.boolean(element, "shell"):
        return {"shell": _shell(element, text, reading)}
    if element.children and text:
        message = "<command> has either text or <arg>s; put every argument in an <arg>"
        reading.found.add(element.span, "bad-value", message)
    if element.children:
        return {"argv": tuple(reading.text(child) for child in element.children)}
    if not text:
        reading.missing(
            element, '<command> is empty; write <arg>s, a line of words, or shell="true" and a text'
        )
        return {}
    return {
        "argv": tuple(
            reading.placeholders(word, element.text_span) for word in _words(element, text, reading)
        )
    }


def refuse_placeholders(element: Element, text: Text, reading: Reading) -> None:
    """Note that a command line has placeholders: no value joins a command line."""
    if any(not isinstance(part, str) for part in text.parts):
        message = (
            f"a placeholder cannot stand in the text of a <{element.tag}> that a shell runs: values reach it "
            'as environment variables; write "$name" for the input of that name'
        )
        reading.found.add(element.span, "bad-value", message)


def _shell(element: Element, text: str, reading: Reading) -> Text | None:
    if element.children or not text:
        message = '<command shell="true"> has the text the shell runs, and no <arg>s'
        reading.found.add(element.span, "bad-value", message)
        return None
    command = reading.text(element)
    refuse_placeholders(element, command, reading)
    return command


def _words(element: Element, text: str, reading: Reading) -> list[str]:
    """The words of a line, split as a shell would, with placeholders whole."""
    held: list[str] = []

    def hold(found: re.Match[str]) -> str:
        held.append(found[0])
        return f"\0{len(held) - 1}\0"  # XML has no such character, so no text has this already

    try:
        words = shlex.split(_PLACEHOLDER.sub(hold, text))
    except ValueError as error:
        reading.found.add(element.span, "syntax-error", f"<command> cannot be split into words: {error}")
        return []
    for word in words:
        if _SHELL_WORD.fullmatch(word):
            message = (
                f"'{word}' means something to a shell only, and none runs this: write shell=\"true\", "
                "or <arg>s if it is an argument"
            )
            reading.found.add(element.span, "bad-value", message)
    return [re.sub("\0([0-9]+)\0", lambda found: held[int(found[1])], word) for word in words]
