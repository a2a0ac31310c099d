"""One line of a `.gitignore`, matched as git matches it: on bytes, with the rules of its `wildmatch`."""

import re
from collections.abc import Callable, Iterable

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
    translated = _Translation(rest, crosses=is_of_names, ignore_case=ignore_case).expression()
    if translated is None:
        return lambda _: None
    return _compiled(rb"(?s:%s%s)\Z" % (_literal(fixed, ignore_case), translated), rest.count(b"*"))


def _literal(text: bytes, ignore_case: bool) -> bytes:
    if not ignore_case:
        return re.escape(text)
    # Spelled out: the flags for it fold more than ASCII (RE2), or turn `[!a]` into everything (`re`).
    return b"".join(
        b"[%c%c]" % (char, char ^ 0x20) if bytes([char]).isalpha() else re.escape(bytes([char]))
        for char in text
    )


def _compiled(expression: bytes, stars: int) -> Callable[[bytes], object]:
    if stars <= _MANY_STARS:
        return re.compile(expression).match
    # Imported here: few patterns need it.
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    return re2.compile(expression.replace(rb"\Z", rb"\z"), options).match  # type: ignore[no-any-return]


class _Translation:
    """A pattern as a regular expression. `crosses`: `*` matches slashes."""

    def __init__(self, pattern: bytes, *, crosses: bool, ignore_case: bool) -> None:
        self._pattern = pattern
        self._crosses = crosses
        self._ignore_case = ignore_case

    def expression(self) -> bytes | None:
        """None when it can never match."""
        pattern, parts, place = self._pattern, [], 0
        while place < len(pattern):
            char = pattern[place : place + 1]
            part: bytes | None
            if char == b"*":
                place, part = self._stars(place)
            elif char == b"?":
                place, part = place + 1, b"." if self._crosses else b"[^/]"
            elif char == b"[":
                place, part = self._bracket(place + 1)
            elif char == b"\\":
                place, part = place + 2, self._escaped_char(place + 1)
            else:
                place, part = place + 1, _literal(char, self._ignore_case)
            if part is None:
                return None
            parts.append(part)
        return b"".join(parts)

    def _stars(self, place: int) -> tuple[int, bytes]:
        pattern, end = self._pattern, place
        while pattern[end : end + 1] == b"*":
            end += 1
        if self._crosses:
            return end, b".*"
        begins = place == 0 or pattern[place - 1 : place] == b"/"
        rest = pattern[end:]
        if end - place < 2 or not begins or not (not rest or rest.startswith((b"/", b"\\/"))):
            return end, b"[^/]*"
        if rest.startswith(b"/"):
            return end + 1, b"(?:.*/)?"  # also no folder at all
        return end, b".*"

    def _escaped_char(self, place: int) -> bytes | None:
        char = self._pattern[place : place + 1]
        # Without regard to case git makes the text small, but not what stands behind a backslash.
        if not char or (self._ignore_case and char.isupper()):
            return None
        return _literal(char, self._ignore_case)

    def _bracket(self, place: int) -> tuple[int, bytes | None]:
        """The set that begins here, and where it ends; None: it does not end, or names no class there is."""
        pattern = self._pattern
        is_negated = pattern[place : place + 1] in (b"!", b"^")
        place += is_negated
        members: set[int] = set()
        before: int | None = None  # what a range could begin with
        is_first = True
        while is_first or pattern[place : place + 1] != b"]":
            is_first = False
            char = self._at(place)
            if char == ord("-") and before is not None and self._at(place + 1) not in (None, ord("]")):
                place, last = self._escaped(place + 1)
                if last is None:
                    return place, None
                members |= self._both_cases(range(before, last + 1))
                before = None
            elif char == ord("[") and self._at(place + 1) == ord(":"):
                end = pattern.find(b"]", place + 2)
                if end < 0:
                    return place, None
                if end - place < 3 or self._at(end - 1) != ord(":"):
                    members.add(char)
                    before = char
                else:
                    found = _CLASSES.get(pattern[place + 2 : end - 1])
                    if found is None:
                        return place, None
                    members |= self._both_cases(found)
                    before, place = None, end
            else:
                place, before = self._escaped(place)
                if before is None:
                    return place, None
                members.add(before)
            place += 1
        return place + 1, self._set(members, is_negated)

    def _at(self, place: int) -> int | None:
        return self._pattern[place] if place < len(self._pattern) else None

    def _escaped(self, place: int) -> tuple[int, int | None]:
        """The character that stands here, perhaps behind a backslash, and its place."""
        if self._at(place) == ord("\\"):
            place += 1
        return place, self._at(place)

    def _both_cases(self, chars: Iterable[int]) -> set[int]:
        """A range or class holds a small letter whose capital it holds; a letter on its own does not."""
        found = set(chars)
        return found | {_small(char) for char in found} if self._ignore_case else found

    def _set(self, members: set[int], is_negated: bool) -> bytes:
        """The set as a regular expression; a slash is in no set unless `*` matches it too."""
        chosen = [
            char
            for char in range(256)
            if ((_small(char) if self._ignore_case else char) in members) != is_negated
            and (self._crosses or char != ord("/"))
        ]
        return b"[%s]" % b"".join(b"\\x%02x" % char for char in chosen) if chosen else rb"[^\x00-\xff]"


def _small(char: int) -> int:
    return char + 0x20 if ord("A") <= char <= ord("Z") else char
