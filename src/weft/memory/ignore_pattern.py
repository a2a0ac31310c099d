"""One line of a `.gitignore`, matched as git matches it: on bytes, with the rules of its `wildmatch`."""

import re
from collections.abc import Callable

_SPECIAL = re.compile(rb"[*?\[\\]")

_CLASSES = {
    b"alnum": rb"0-9A-Za-z", b"alpha": rb"A-Za-z", b"blank": rb" \t", b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9", b"graph": rb"\x21-\x7e", b"lower": rb"a-z", b"print": rb"\x20-\x7e",
    b"punct": rb"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e", b"space": rb" \t-\r", b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}  # fmt: skip

_MANY_STARS = 3
"""With more of them `re` may take very long on a hostile pattern; then RE2 matches, whose time is bounded."""


class Pattern:
    """A rule: which paths below its folder it is about, and whether it ignores them or takes them in."""

    __slots__ = ("is_for_folders", "is_ignoring", "is_of_names", "literal", "matches", "suffix")

    def __init__(self, line: bytes, *, ignore_case: bool = False) -> None:
        self.is_ignoring = not line.startswith(b"!")
        if not self.is_ignoring:
            line = line[1:]
        self.is_for_folders = line.endswith(b"/")
        if self.is_for_folders:
            line = line[:-1]
        self.is_of_names = b"/" not in line
        """Whether it is matched with the last part of a path only."""
        special = _SPECIAL.search(line)
        self.literal = line if special is None and self.is_of_names and not ignore_case else None
        """The one name that it matches, for a look-up instead of a comparison."""
        rest = line[1:]
        is_suffix = self.is_of_names and line.startswith(b"*") and _SPECIAL.search(rest) is None
        self.suffix = rest if is_suffix and not ignore_case else None
        self.matches = _matcher(line, is_of_names=self.is_of_names, ignore_case=ignore_case)


def read_patterns(content: bytes, *, ignore_case: bool = False) -> list[Pattern]:
    """The rules of a file, in order."""
    patterns = []
    for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = _without_trailing_spaces(line.removesuffix(b"\r").partition(b"\0")[0])
        if line and not line.startswith(b"#"):
            patterns.append(Pattern(line, ignore_case=ignore_case))
    return patterns


def _without_trailing_spaces(line: bytes) -> bytes:
    """A space at the end counts only behind a backslash."""
    kept = place = 0
    while place < len(line):
        if line[place : place + 1] == b"\\":
            place += 2
            kept = min(place, len(line))
        else:
            place += 1
            if line[place - 1 : place] != b" ":
                kept = place
    return line[:kept]


def _matcher(line: bytes, *, is_of_names: bool, ignore_case: bool) -> Callable[[bytes], object]:
    if not is_of_names:
        line = line.removeprefix(b"/")
    special = _SPECIAL.search(line)
    # git compares what is before the first special character by itself; `**` right behind it then stands at
    # the start of a pattern, where it may cross folders: `a**/b` matches `ax/y/b`.
    fixed, rest = (line, b"") if special is None else (line[: special.start()], line[special.start() :])
    translated = _translated(rest, crosses=is_of_names)
    if translated is None:
        return lambda _: None
    return _compiled(rb"(?s:%s%s)\Z" % (re.escape(fixed), translated), ignore_case, rest.count(b"*"))


def _compiled(expression: bytes, ignore_case: bool, stars: int) -> Callable[[bytes], object]:
    if stars <= _MANY_STARS:
        return re.compile(expression, re.IGNORECASE if ignore_case else 0).match
    # Imported here: few patterns need it.
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.case_sensitive = not ignore_case
    options.log_errors = False
    return re2.compile(expression.replace(rb"(?s:", rb"(?s:").replace(rb"\Z", rb"\z"), options).match  # type: ignore[no-any-return]


def _translated(pattern: bytes, *, crosses: bool) -> bytes | None:
    """The pattern as a regular expression; None when it can never match. `crosses`: `*` matches slashes."""
    parts: list[bytes] = []
    place = 0
    while place < len(pattern):
        char = pattern[place : place + 1]
        if char == b"*":
            place, part = _stars(pattern, place, crosses)
        elif char == b"?":
            place, part = place + 1, b"." if crosses else b"[^/]"
        elif char == b"[":
            place, part = _bracket(pattern, place + 1, crosses)
        elif char == b"\\":
            if place + 1 == len(pattern):
                return None
            place, part = place + 2, re.escape(pattern[place + 1 : place + 2])
        else:
            place, part = place + 1, re.escape(char)
        if part is None:
            return None
        parts.append(part)
    return b"".join(parts)


def _stars(pattern: bytes, place: int, crosses: bool) -> tuple[int, bytes]:
    end = place
    while pattern[end : end + 1] == b"*":
        end += 1
    if crosses:
        return end, b".*"
    begins = place == 0 or pattern[place - 1 : place] == b"/"
    rest = pattern[end:]
    if end - place < 2 or not begins or not (not rest or rest.startswith((b"/", b"\\/"))):
        return end, b"[^/]*"
    if rest.startswith(b"/"):
        return end + 1, b"(?:.*/)?"  # also no folder at all
    return end, b".*"


def _bracket(pattern: bytes, place: int, crosses: bool) -> tuple[int, bytes | None]:
    """The set that begins here, and where it ends; None when it does not end."""
    is_negated = pattern[place : place + 1] in (b"!", b"^")
    place += is_negated
    members: list[bytes] = []
    before = b""  # what a range could begin with
    is_first = True
    while is_first or pattern[place : place + 1] != b"]":
        is_first = False
        char = pattern[place : place + 1]
        if char == b"":
            return place, None
        if char == b"\\":
            place += 1
            char = pattern[place : place + 1]
            if char == b"":
                return place, None
            members.append(_member(char))
            before = char
        elif char == b"-" and before and pattern[place + 1 : place + 2] not in (b"", b"]"):
            place += 1
            last = pattern[place : place + 1]
            if last == b"\\":
                place += 1
                last = pattern[place : place + 1]
                if last == b"":
                    return place, None
            if before <= last:
                members.append(b"%s-%s" % (_member(before), _member(last)))
            before = b""
        elif char == b"[" and pattern[place + 1 : place + 2] == b":":
            end = pattern.find(b"]", place + 2)
            if end < 0:
                return place, None
            if end - place < 3 or pattern[end - 1 : end] != b":":
                members.append(_member(char))
                before = char
            else:
                found = _CLASSES.get(pattern[place + 2 : end - 1])
                if found is None:
                    return place, None
                members.append(found)
                before, place = b"", end
        else:
            members.append(_member(char))
            before = char
        place += 1
    return place + 1, _set(members, is_negated, crosses)


def _member(char: bytes) -> bytes:
    return b"\\x%02x" % char[0]


def _set(members: list[bytes], is_negated: bool, crosses: bool) -> bytes:
    inside = b"".join(members)
    if is_negated:
        return b"[^%s%s]" % (inside, b"" if crosses else b"/")
    if not inside:
        return b"[^\\x00-\\xff]"
    return b"[%s]" % inside if crosses else b"(?:(?!/)[%s])" % inside
