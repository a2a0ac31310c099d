"""One line of a `.gitignore`, matched as git matches it: on bytes, with the rules of its `wildmatch`."""

import re
from collections.abc import Callable

_SPECIAL = re.compile(rb"[*?\[\\]")

_CLASSES = {
    name: frozenset(byte for byte in range(128) if re.fullmatch(members, bytes([byte])))
    for name, members in {
        b"alnum": rb"[0-9A-Za-z]", b"alpha": rb"[A-Za-z]", b"blank": rb"[ \t]",
        b"cntrl": rb"[\x00-\x1f\x7f]",
        b"digit": rb"[0-9]", b"graph": rb"[!-~]", b"lower": rb"[a-z]", b"print": rb"[ -~]",
        b"punct": rb"[!-/:-@\[-`{-~]", b"space": rb"[ \t-\r]", b"upper": rb"[A-Z]",
        b"xdigit": rb"[0-9A-Fa-f]",
    }.items()
}  # fmt: skip

_MANY_STARS = 3
"""With more of them `re` may take very long on a hostile pattern; then RE2 matches, whose time is bounded."""


class Pattern:
    """A rule: which paths below its folder it is about, and whether it ignores them or takes them in."""

    __slots__ = ("is_for_folders", "is_ignoring", "is_of_names", "matches")

    def __init__(self, line: bytes, *, ignore_case: bool = False) -> None:
        self.is_ignoring = not line.startswith(b"!")
        if not self.is_ignoring:
            line = line[1:]
        self.is_for_folders = line.endswith(b"/")
        if self.is_for_folders:
            line = line[:-1]
        self.is_of_names = b"/" not in line
        """Whether it is matched with the last part of a path only."""
        self.matches = _matcher(line, is_of_names=self.is_of_names, ignore_case=ignore_case)


def read_patterns(content: bytes, *, ignore_case: bool = False) -> list[Pattern]:
    """The rules of a file, in order."""
    patterns = []
    for written in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = _without_trailing_spaces(written.removesuffix(b"\r").partition(b"\0")[0])
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
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.case_sensitive = not ignore_case
    options.log_errors = False
    return re2.compile(expression.replace(rb"\Z", rb"\z"), options).match  # type: ignore[no-any-return]


def _translated(pattern: bytes, *, crosses: bool) -> bytes | None:
    """The pattern as a regular expression; None when it can never match. `crosses`: `*` matches slashes."""
    parts: list[bytes] = []
    place = 0
    while place < len(pattern):
        char = pattern[place : place + 1]
        part: bytes | None
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
    """The set that begins here, and where it ends; None when it does not end, or names no class there is."""
    is_negated = pattern[place : place + 1] in (b"!", b"^")
    place += is_negated
    members: set[int] = set()
    before: int | None = None  # what a range could begin with
    is_first = True
    while is_first or pattern[place : place + 1] != b"]":
        is_first = False
        char = _at(pattern, place)
        if char == ord("-") and before is not None and _at(pattern, place + 1) not in (None, ord("]")):
            place, last = _escaped(pattern, place + 1)
            if last is None:
                return place, None
            members.update(range(before, last + 1))
            before = None
        elif char == ord("[") and _at(pattern, place + 1) == ord(":"):
            end = pattern.find(b"]", place + 2)
            if end < 0:
                return place, None
            if end - place < 3 or _at(pattern, end - 1) != ord(":"):
                members.add(char)
                before = char
            else:
                found = _CLASSES.get(pattern[place + 2 : end - 1])
                if found is None:
                    return place, None
                members |= found
                before, place = None, end
        else:
            place, before = _escaped(pattern, place)
            if before is None:
                return place, None
            members.add(before)
        place += 1
    return place + 1, _set(members, is_negated, crosses)


def _at(pattern: bytes, place: int) -> int | None:
    return pattern[place] if place < len(pattern) else None


def _escaped(pattern: bytes, place: int) -> tuple[int, int | None]:
    """The character that stands here, perhaps behind a backslash, and its place."""
    if _at(pattern, place) == ord("\\"):
        place += 1
    return place, _at(pattern, place)


def _set(members: set[int], is_negated: bool, crosses: bool) -> bytes:
    """The set as a regular expression; a slash is in no set unless `*` matches it too."""
    chosen = set(range(256)) - members if is_negated else set(members)
    if not crosses:
        chosen.discard(ord("/"))
    return (
        b"[%s]" % b"".join(b"\\x%02x" % member for member in sorted(chosen)) if chosen else rb"[^\x00-\xff]"
    )
