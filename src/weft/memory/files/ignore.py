"""Decides which paths are ignored: by `.gitignore` and `.weftignore` files, git, and settings."""

import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from weft.memory.files.git import git_output, git_text

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
"""With more stars `re` may take very long on a hostile pattern, so RE2 is used, which takes linear time."""


class Pattern:
    """One line of an ignore file."""

    __slots__ = ("is_for_folders", "is_ignoring", "is_of_names", "matches")

    def __init__(self, line: bytes, *, ignore_case: bool = False) -> None:
        self.is_ignoring = not line.startswith(b"!")
        if not self.is_ignoring:
            line = line[1:]
        self.is_for_folders = line.endswith(b"/")
        if self.is_for_folders:
            line = line[:-1]
        self.is_of_names = b"/" not in line
        """True if the pattern is matched against the last part of a path only."""
        self.matches = _matcher(line, is_of_names=self.is_of_names, ignore_case=ignore_case)


def read_patterns(content: bytes, *, ignore_case: bool = False) -> list[Pattern]:
    """Parse the patterns of an ignore file, in order."""
    patterns = []
    for written in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = _without_trailing_spaces(written.removesuffix(b"\r").partition(b"\0")[0])
        if line and not line.startswith(b"#"):
            patterns.append(Pattern(line, ignore_case=ignore_case))
    return patterns


def _without_trailing_spaces(line: bytes) -> bytes:
    # A space at the end is kept only after a backslash.
    kept = position = 0
    while position < len(line):
        if line[position : position + 1] == b"\\":
            position += 2
            kept = min(position, len(line))
        else:
            position += 1
            if line[position - 1 : position] != b" ":
                kept = position
    return line[:kept]


def _matcher(line: bytes, *, is_of_names: bool, ignore_case: bool) -> Callable[[bytes], object]:
    if not is_of_names:
        line = line.removeprefix(b"/")
    special = _SPECIAL.search(line)
    # git compares the part before the first special character separately; `**` right after it is then at the
    # start of a pattern, where it may cross folders: `a**/b` matches `ax/y/b`.
    fixed, remainder = (line, b"") if special is None else (line[: special.start()], line[special.start() :])
    translated = _Translator(remainder, crosses=is_of_names, ignore_case=ignore_case).translate()
    if translated is None:
        return lambda _: None
    return _compile(rb"(?s:%s%s)\Z" % (_literal(fixed, ignore_case), translated), remainder.count(b"*"))


def _literal(text: bytes, ignore_case: bool) -> bytes:
    if not ignore_case:
        return re.escape(text)
    # No flag is used for this: flags fold more than ASCII (RE2), or make `[!a]` match everything (`re`).
    return b"".join(
        b"[%c%c]" % (char, char ^ 0x20) if bytes([char]).isalpha() else re.escape(bytes([char]))
        for char in text
    )


def _compile(expression: bytes, stars: int) -> Callable[[bytes], object]:
    if stars <= _MANY_STARS:
        return re.compile(expression).match
    # Imported here: few patterns need it.
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    return re2.compile(expression.replace(rb"\Z", rb"\z"), options).match  # type: ignore[no-any-return]


class _Translator:
    """Translates a pattern to a regular expression. With `crosses`, `*` matches slashes."""

    def __init__(self, pattern: bytes, *, crosses: bool, ignore_case: bool) -> None:
        self._pattern = pattern
        self._crosses = crosses
        self._ignore_case = ignore_case

    def translate(self) -> bytes | None:
        """Return the regular expression, or None if the pattern can never match."""
        pattern, parts, position = self._pattern, [], 0
        while position < len(pattern):
            char = pattern[position : position + 1]
            part: bytes | None
            if char == b"*":
                position, part = self._stars(position)
            elif char == b"?":
                position, part = position + 1, b"." if self._crosses else b"[^/]"
            elif char == b"[":
                position, part = self._bracket(position + 1)
            elif char == b"\\":
                position, part = position + 2, self._escaped_char(position + 1)
            else:
                position, part = position + 1, _literal(char, self._ignore_case)
            if part is None:
                return None
            parts.append(part)
        return b"".join(parts)

    def _stars(self, position: int) -> tuple[int, bytes]:
        pattern, end = self._pattern, position
        while pattern[end : end + 1] == b"*":
            end += 1
        if self._crosses:
            return end, b".*"
        begins = position == 0 or pattern[position - 1 : position] == b"/"
        remainder = pattern[end:]
        if end - position < 2 or not begins or not (not remainder or remainder.startswith((b"/", b"\\/"))):
            return end, b"[^/]*"
        if remainder.startswith(b"/"):
            return end + 1, b"(?:.*/)?"  # zero or more folders
        return end, b".*"

    def _escaped_char(self, position: int) -> bytes | None:
        char = self._pattern[position : position + 1]
        # When case is ignored, git converts the text to lower case, but not a character after a backslash.
        if not char or (self._ignore_case and char.isupper()):
            return None
        return _literal(char, self._ignore_case)

    def _bracket(self, position: int) -> tuple[int, bytes | None]:
        """Translate the bracket expression that begins before `position`.

        Return the position after it and the regular expression; None for the latter if the bracket is
        unclosed or has an unknown class.
        """
        pattern = self._pattern
        is_negated = pattern[position : position + 1] in (b"!", b"^")
        position += is_negated
        members: set[int] = set()
        before: int | None = None  # possible start of a range
        is_first = True
        while is_first or pattern[position : position + 1] != b"]":
            is_first = False
            char = self._at(position)
            if char == ord("-") and before is not None and self._at(position + 1) not in (None, ord("]")):
                position, last = self._unescape(position + 1)
                if last is None:
                    return position, None
                members |= self._with_lower_case(range(before, last + 1))
                before = None
            elif char == ord("[") and self._at(position + 1) == ord(":"):
                end = pattern.find(b"]", position + 2)
                if end < 0:
                    return position, None
                if end - position < 3 or self._at(end - 1) != ord(":"):
                    members.add(char)
                    before = char
                else:
                    found = _CLASSES.get(pattern[position + 2 : end - 1])
                    if found is None:
                        return position, None
                    members |= self._with_lower_case(found)
                    before, position = None, end
            else:
                position, before = self._unescape(position)
                if before is None:
                    return position, None
                members.add(before)
            position += 1
        return position + 1, self._set(members, is_negated)

    def _at(self, position: int) -> int | None:
        return self._pattern[position] if position < len(self._pattern) else None

    def _unescape(self, position: int) -> tuple[int, int | None]:
        """Return position and value of the character here, or after a backslash here; None at the end."""
        if self._at(position) == ord("\\"):
            position += 1
        return position, self._at(position)

    def _with_lower_case(self, chars: Iterable[int]) -> set[int]:
        # As in git, ranges and classes include the lower case of their letters, single characters do not.
        found = set(chars)
        return found | {_lower(char) for char in found} if self._ignore_case else found

    def _set(self, members: set[int], is_negated: bool) -> bytes:
        """Return the set as a regular expression; it matches a slash only if `*` does."""
        chosen = [
            char
            for char in range(256)
            if ((_lower(char) if self._ignore_case else char) in members) != is_negated
            and (self._crosses or char != ord("/"))
        ]
        return b"[%s]" % b"".join(b"\\x%02x" % char for char in chosen) if chosen else rb"[^\x00-\xff]"


def _lower(char: int) -> int:
    return char + 0x20 if ord("A") <= char <= ord("Z") else char


IGNORE_FILES = (".gitignore", ".weftignore")
"""The later one takes precedence."""

ALWAYS = frozenset({b".git", b".weft"})
"""Folders that are always ignored."""

MAX_IGNORE_BYTES = 1024 * 1024


class FolderRules:
    """The patterns of one source, which apply to the paths below one folder."""

    def __init__(self, base: bytes, patterns: Sequence[Pattern]) -> None:
        self._base_length = len(base) + 1 if base else 0
        self._patterns = patterns
        last_first = [*enumerate(patterns)][::-1]
        self._of_names = [(number, pattern) for number, pattern in last_first if pattern.is_of_names]
        self._of_paths = [(number, pattern) for number, pattern in last_first if not pattern.is_of_names]
        self._by_name: dict[tuple[bytes, bool], int] = {}
        """Cache of the number of the last pattern that matches a name (-1: no pattern), as names recur."""

    def verdict(self, path: bytes, name: bytes, is_folder: bool) -> bool | None:
        """Return True if the last pattern that matches the path ignores it; None if no pattern matches."""
        best = -1
        if self._of_names:
            if (name, is_folder) not in self._by_name:
                self._by_name[name, is_folder] = _last_match(self._of_names, name, is_folder)
            best = self._by_name[name, is_folder]
        if self._of_paths:
            best = max(best, _last_match(self._of_paths, path[self._base_length :], is_folder))
        return None if best < 0 else self._patterns[best].is_ignoring


def _last_match(patterns: Iterable[tuple[int, Pattern]], text: bytes, is_folder: bool) -> int:
    """Return the number of the first of these patterns that matches; -1 if none does."""
    for number, pattern in patterns:
        if (is_folder or not pattern.is_for_folders) and pattern.matches(text):
            return number
    return -1


def _verdict(lists: Sequence[FolderRules], path: bytes, name: bytes, is_folder: bool) -> bool | None:
    """Return the verdict of the last rules that have one."""
    for rules in reversed(lists):
        verdict = rules.verdict(path, name, is_folder)
        if verdict is not None:
            return verdict
    return None


class Rules(Struct, frozen=True):
    """The rules that apply in a folder: its own, those of the folders above it, and the repository's."""

    lists: tuple[FolderRules, ...]
    """Rules with higher precedence come later."""
    prefix: bytes = b""
    """Path of the root relative to the repository, which is prepended to paths for the rules in `lists`."""
    always: tuple[FolderRules, ...] = ()
    """Rules from the settings: they override those of files, in every repository below the root."""
    ignore_case: bool = False

    def is_ignored(self, path: bytes, *, is_folder: bool) -> bool:
        """Return True if a path in this folder is ignored; the caller has checked the folders above it."""
        name = path.rpartition(b"/")[2]
        if name in ALWAYS:
            return True
        verdict = _verdict(self.always, path, name, is_folder)
        return bool(_verdict(self.lists, self.prefix + path, name, is_folder) if verdict is None else verdict)

    def is_ignored_by_us(self, path: bytes) -> bool:
        """Return True if a file is ignored regardless of git: by the settings, or in a folder of `ALWAYS`."""
        parts = path.split(b"/")
        for end in range(1, len(parts) + 1):
            here, name = b"/".join(parts[:end]), parts[end - 1]
            if name in ALWAYS or _verdict(self.always, here, name, is_folder=end < len(parts)):
                return True
        return False

    def inside(self, folder: Path, path: bytes, names: Sequence[str]) -> "Rules":
        """Return the rules of a folder below; `names` are the names of its entries."""
        if ".git" in names:
            # A nested repository has only its own rules.
            return repository_rules(folder, path, self.always)
        base = self.prefix + path
        files = [folder / name for name in IGNORE_FILES if name in names]
        found = _read_rules(files, base, self.ignore_case)
        return replace(self, lists=(*self.lists, *found)) if found else self


def top_of(folder: Path) -> Path | None:
    """Return the top folder of the git repository that contains a folder, or None."""
    # Path.exists raises PermissionError.
    return next((each for each in (folder, *folder.parents) if os.path.exists(each / ".git")), None)  # noqa: PTH110


def rules_of(root: Path, extra: Sequence[str] = ()) -> Rules:
    """Return the rules of a root and `extra` patterns; in a git repository also of the folders above it."""
    patterns = read_patterns("\n".join(extra).encode("utf-8", "surrogateescape"))
    always = (FolderRules(b"", patterns),) if patterns else ()
    top = top_of(root)
    if top is None:
        return Rules((), always=always).inside(root, b"", IGNORE_FILES)
    rules = repository_rules(top, b"", ())
    relative = root.relative_to(top)
    for depth in range(1, len(relative.parts) + 1):
        path = Path(*relative.parts[:depth])
        rules = rules.inside(top / path, os.fsencode(path), IGNORE_FILES)
    prefix = os.fsencode(relative) + b"/" if relative.parts else b""
    return replace(rules, prefix=prefix, always=always)


def rule_files_above(root: Path) -> list[Path]:
    """Return the ignore files outside a root that apply to it; they may not exist."""
    top = top_of(root)
    if top is None:
        return []
    excludes_file, _, exclude = _git_settings(top)
    above = [folder for folder in root.parents if folder.is_relative_to(top)]
    rules = [folder / name for folder in above for name in IGNORE_FILES]
    return [*rules, *(file for file in (excludes_file, exclude) if file is not None)]


def repository_rules(top: Path, path: bytes, always: tuple[FolderRules, ...]) -> Rules:
    """Return the rules of the top folder of a repository, for paths that begin with `path`."""
    excludes_file, ignore_case, exclude = _git_settings(top)
    outside = [file for file in (excludes_file, exclude) if file is not None]
    own = [top / name for name in IGNORE_FILES]
    lists = (
        *_read_rules(outside, path, ignore_case, follow=True),
        *_read_rules(own, path, ignore_case),
    )
    return Rules(lists, always=always, ignore_case=ignore_case)


def _read_rules(
    files: Iterable[Path], base: bytes, ignore_case: bool, *, follow: bool = False
) -> list[FolderRules]:
    """Return the rules of the files that can be read; links are not read without `follow`."""
    contents = (_read_content(file, follow=follow) for file in files)
    return [
        FolderRules(base, read_patterns(content, ignore_case=ignore_case))
        for content in contents
        if content is not None
    ]


def _read_content(file: Path, *, follow: bool) -> bytes | None:
    """Return the start of a regular file; None if it cannot be read, or is a link without `follow`."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    with (
        suppress(OSError, ValueError),
        open(file, "rb", opener=lambda path, _: os.open(path, flags)) as opened,
    ):
        if stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            return opened.read(MAX_IGNORE_BYTES)
    return None


def _git_settings(top: Path) -> tuple[Path | None, bool, Path | None]:
    """Return the user's ignore file, whether case is ignored, and the repository's `info/exclude` file.

    They come from git itself, because its settings are in several files that include each other.
    """
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    excludes_file: Path | None = Path(home) / "git" / "ignore"
    ignore_case = False
    lines = git_text(top, "config", "-z", "--get-regexp", r"^core\.(excludesfile|ignorecase)$").split("\0")
    for key, _, value in (line.partition("\n") for line in lines):
        if key == "core.excludesfile":
            excludes_file = Path(value).expanduser() if value else None
        elif key == "core.ignorecase":
            ignore_case = value.lower() in ("true", "yes", "on", "1", "")
    return excludes_file, ignore_case, _info_exclude(top)


def _info_exclude(top: Path) -> Path | None:
    folder = top / ".git"
    if folder.is_dir():
        return folder / "info" / "exclude"
    # In a worktree or submodule `.git` is a file with the path of the repository.
    found = git_text(top, "rev-parse", "--git-path", "info/exclude").strip()
    return top / found if found else None


def tracked_though_ignored(top: Path) -> list[bytes]:
    """Return the files in git's index that match an ignore rule: git does not ignore those."""
    found = git_output(top, "ls-files", "-z", "--cached", "--ignored", "--exclude-standard")
    return [path for path in found.split(b"\0") if path]
