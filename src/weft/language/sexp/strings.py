"""Strings and their escapes, in both directions."""

import re

STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
BARRED = r"\|[^|\\]*+(?:\\.[^|\\]*+)*+\|"

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|(.))", re.DOTALL)
_SHORT = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "|": "|"}
_WRITTEN = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"}
SURROGATE = re.compile("[\ud800-\udfff]")
_LAST_CHARACTER = 0x10FFFF


class BadEscape(ValueError):
    """An escape that means nothing; `offset` is its place in the written text."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


def unescape(written: str) -> str:
    """The text that was written between quotes or bars; raises BadEscape."""
    if "\\" not in written:
        return written
    text = _ESCAPE.sub(_character, written)
    if not SURROGATE.search(text):
        return text
    try:  # \ud83d\ude00 is one character, as in JSON
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as error:
        raise BadEscape("half of a surrogate pair is no character", written.index("\\")) from error


def _character(escape: re.Match[str]) -> str:
    four, braced, short = escape.groups()
    if short is not None:
        if short not in _SHORT:
            shown = "\\" + short if short.isprintable() else "a backslash at the end of a line"
            raise BadEscape(
                f'{shown} is no escape: the escapes are \\n \\t \\r \\" \\\\ \\uXXXX \\u{{X...}}',
                escape.start(),
            )
        return _SHORT[short]
    code = int(four or braced, 16)
    if code > _LAST_CHARACTER:
        raise BadEscape(f"there is no character U+{code:X}", escape.start())
    return chr(code)


def escape(text: str, *, mark: str = '"', keeps_lines: bool = False) -> str:
    """The text between marks, so that `unescape` gives it back.

    What cannot be seen is escaped, so that no printed program hides something; line breaks only where
    `keeps_lines` is not set.
    """
    if text.isprintable() and mark not in text and "\\" not in text:
        return f"{mark}{text}{mark}"
    written = {**_WRITTEN, mark: f"\\{mark}"}
    if keeps_lines:
        del written["\n"]
    shown = (
        written[one]
        if one in written
        else one
        if one.isprintable() or one == "\n"
        else f"\\u{{{ord(one):x}}}"
        for one in text
    )
    return f"{mark}{''.join(shown)}{mark}"
