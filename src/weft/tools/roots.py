"""The folders that tools and `file_paths` may reach: the only way they touch files."""

import codecs
import errno
import heapq
import itertools
import os
import secrets
import stat
import sys
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Literal

from msgspec import Struct

from weft.config.paths import identity, open_databases
from weft.tools.safe_open import FileUnavailable, PathRefused, Walk, open_file, parts_of

MAX_READ_BYTES = 1024 * 1024
"""How much of a file is read unless asked otherwise: more than any model's window."""

MAX_WRITE_BYTES = 16 * 1024 * 1024
"""Largest text that is written: no model writes as much in one piece, an accident does."""

MAX_ENTRIES = 1000
"""How much of a folder is listed: the rest is counted."""

CLOSED_FOLDERS = frozenset({".git", ".weft"})
"""Neither read nor written: `.git/config` may hold a token and `.git/hooks` are programs; a store has the
inputs and results of every task, also of other owners."""

KEPT_FILES = frozenset({"weft.toml", ".mcp.json"})
"""Read, never written: what stands there decides which programs run and what tools may do."""

_MODULE_SUFFIXES = tuple(all_suffixes())

_SQLITE = b"SQLite format 3\0"
_BESIDE_DATABASES = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database: who overwrites it damages the database."""

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class FileText(Struct, frozen=True, kw_only=True):
    """What was read of a file."""

    path: str
    text: str
    """UTF-8, or UTF-16 with a mark; what is no such text is replaced by U+FFFD."""
    size: int
    """Of the whole file, in bytes."""
    is_cut: bool = False
    """Whether the file is longer than what was read of it."""
    is_binary: bool = False
    """Whether it looks like no text at all: it has NUL bytes."""


class FolderEntry(Struct, frozen=True, kw_only=True):
    """Something in a folder."""

    name: str
    kind: Literal["file", "folder", "link", "other"]
    size: int | None = None
    """Of a file, in bytes."""


class Listing(Struct, frozen=True, kw_only=True):
    """A folder, by name."""

    entries: tuple[FolderEntry, ...]
    left_off: int = 0
    """How many entries there are beyond those listed."""


class Roots:
    """Folders whose files may be read and written.

    A path is relative to the first root, or absolute and inside any. Reading follows links that stay inside;
    writing follows none. A root may be a link itself. A second name of an outside file (a hard link) inside a
    root is a file of that root: nothing can tell the two apart.
    """

    def __init__(
        self,
        folders: Iterable[Path | str],
        *,
        kept_files: Collection[str] = (),
        kept_modules: Iterable[str] = (),
        kept_packages: Iterable[Path | str] = (),
        keeps_imports: bool = False,
    ) -> None:
        """Keep more files from being written than those that are never written.

        `kept_modules` are names, wherever the file is; of `kept_packages`, paths without a suffix, also all
        modules below. `keeps_imports` adds what this process has imported, compiled modules, and what is
        installed where this Python looks.
        """
        given = [Path(folder).absolute() for folder in folders]
        if not given:
            raise ValueError("there must be at least one root")
        # Both spellings: who asks may know a root by its own name or by where it leads.
        self._places = {
            spelling: folder.resolve() for folder in given for spelling in (folder, folder.resolve())
        }
        self.folders = tuple(dict.fromkeys(self._places.values()))
        self._kept_files = frozenset(map(_folded, KEPT_FILES | set(kept_files)))
        self._kept_modules = [
            tuple(map(_folded, names[:length]))
            for names in (module.split(".") for module in kept_modules)
            for length in range(1, len(names) + 1)  # the packages around it are imported with it
        ]
        self._kept_packages = [tuple(map(_folded, Path(package).parts)) for package in kept_packages]
        self._keeps_imports = keeps_imports

    def read(self, path: str, *, max_bytes: int = MAX_READ_BYTES) -> FileText:
        """The text of a file, at most so much of it."""
        with self._walk(path) as walk:
            name = walk.go_to(self._begin(path, walk))
            if name is None:
                raise FileUnavailable(path, "it is a folder")
            with os.fdopen(open_file(walk, name, path), "rb") as file:
                start = file.read(max_bytes + 1)
                size = max(os.fstat(file.fileno()).st_size, len(start))
        is_cut = len(start) > max_bytes
        text, is_binary = _decoded(start[:max_bytes], is_cut=is_cut)
        return FileText(path=path, text=text, size=size, is_cut=is_cut, is_binary=is_binary)

    def list(self, path: str = ".", *, max_entries: int = MAX_ENTRIES) -> Listing:
        """What is in a folder, by name."""
        with self._walk(path) as walk:
            name = walk.go_to(self._begin(path, walk))
            if name is not None:
                os.close(open_file(walk, name, path))  # says what it is if it is not there
                raise FileUnavailable(path, "it is a file, no folder")
            try:
                with os.scandir(walk.folder) as found:
                    counter = itertools.count()
                    counted = (entry for entry, _ in zip(found, counter, strict=False))
                    first = heapq.nsmallest(max_entries, counted, key=lambda entry: entry.name)
                    entries = tuple(_entry(entry) for entry in first)
            except OSError as error:
                raise FileUnavailable(path, (error.strerror or str(error)).lower()) from None
        return Listing(entries=entries, left_off=next(counter) - len(entries))

    def write(self, path: str, text: str) -> int:
        """Put the text into a file, at once or not at all; folders on the way are made. Gives its size.

        A file that is there keeps its mode. Links are not followed, read-only files not replaced.
        """
        try:
            content = text.encode()
        except UnicodeEncodeError:
            raise FileUnavailable(path, "the text has half of a surrogate pair, which is no UTF-8") from None
        if len(content) > MAX_WRITE_BYTES:
            raise FileUnavailable(
                path, f"the text has {len(content)} bytes; at most {MAX_WRITE_BYTES} are written"
            )
        with self._walk(path) as walk:
            parts = _without_detours(path, self._begin(path, walk))
            if not parts or path.rpartition("/")[2] in ("", ".", ".."):
                raise FileUnavailable(path, "it is a folder")
            if _is_closed(parts[-1]):
                raise PathRefused(path, f"'{parts[-1]}' is closed to tools")
            if self._is_kept([*walk.root.parts, *parts]):
                raise PathRefused(path, "it decides what may run, and is not written by tools")
            walk.make(parts[:-1])
            _refuse_databases(walk.folder, parts[-1], path)
            try:
                _replace(walk.folder, parts[-1], content, path)
            except OSError as error:
                raise FileUnavailable(path, (error.strerror or str(error)).lower()) from None
        return len(content)

    def place(self, path: str) -> Path:
        """Where a file that may be written is or would be, or a folder: for a program that opens it itself.

        Whoever can swap a folder for a link in the moment between this and the program's use leads it out.
        """
        with self._walk(path) as walk, suppress(FileUnavailable):  # what is not there yet may be made
            walk.go_to(self._begin(path, walk))
        place = (self.folders[0] / path).resolve()
        root = next((folder for folder in self.folders if place.is_relative_to(folder)), None)
        if root is None:
            raise PathRefused(path, "it leads out of the roots")
        parts = place.relative_to(root).parts
        if any(map(_is_closed, parts)):
            raise PathRefused(path, "it is closed to tools")
        if parts and self._is_kept(place.parts):
            raise PathRefused(path, "it decides what may run, and is not written by tools")
        if parts and place.parent.is_dir():
            folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                _refuse_databases(folder, place.name, path)
            finally:
                os.close(folder)
        return place

    def _is_kept(self, parts: Sequence[str]) -> bool:
        """Whether a file is never written; of modules, wherever they are: who imports them finds them."""
        *folders, name = map(_folded, parts)
        stem = name.partition(".")[0]
        imported = tuple(folders) if stem == "__init__" else (*folders, stem)
        if name in self._kept_files:
            return True
        if name != stem and any(imported[-len(module) :] == module for module in self._kept_modules):
            return True
        if name.endswith(_MODULE_SUFFIXES) and any(
            imported[: len(package)] == package for package in self._kept_packages
        ):
            return True
        if not self._keeps_imports:
            return False
        place = Path(*parts)
        # Compiled modules are taken as they are: what stands in them need not be what the source says.
        return (
            "__pycache__" in folders
            or any(place.is_relative_to(folder) for folder in _run_by_python())
            or _is_imported(place)
        )

    def _walk(self, path: str) -> Walk:
        if not isinstance(path, str):
            raise TypeError("a path must be a string")
        return Walk(path, self._places, is_closed=_is_closed)

    def _begin(self, path: str, walk: Walk) -> Sequence[str]:
        """Enter the root of the path; its parts below."""
        if path.startswith("/"):
            return walk.begin(path)
        parts = parts_of(path)
        walk.enter_root(self.folders[0])
        return parts


def _is_imported(place: Path) -> bool:
    """Whether a module of this process was read from the file, by whatever name, or would be the next time:
    a package takes the place of a module."""
    known = None
    with suppress(OSError):
        known = identity(place.stat())
    module = _module_at(place)
    name = _folded(module.name)
    for file in _module_files():
        with suppress(OSError):
            if known is not None and identity(os.stat(file)) == known:  # noqa: PTH116 - there are a thousand
                return True
        # The name first: resolving a path takes a system call for each of its folders.
        if _folded(file.removesuffix("/__init__.py").rpartition("/")[2].partition(".")[0]) == name:
            found = _module_at(Path(file))
            if _folded(found.name) == name and found.parent.resolve() == module.parent:
                return True
    return False


def _module_files() -> Iterator[str]:
    """Where the modules of this process are, and what they were compiled to."""
    for module in list(sys.modules.values()):
        for file in (getattr(module, "__file__", None), getattr(module, "__cached__", None)):
            if isinstance(file, str):
                yield file


def _module_at(file: Path) -> Path:
    """Where the module of a file is looked for: the path without a suffix, of a package its folder."""
    stem = file.name.partition(".")[0]
    return file.parent if stem == "__init__" else file.parent / stem


def _run_by_python() -> list[Path]:
    """Return the folders whose files Python runs when it starts: its environment, and what is installed."""
    places = [Path(place) for place in sys.path if Path(place).name in ("site-packages", "dist-packages")]
    if sys.prefix != sys.base_prefix:
        places.append(Path(sys.prefix))
    return [place.resolve() for place in places]


def _refuse_databases(folder: int, name: str, path: str) -> None:
    """Raise PathRefused for a SQLite database and what lies beside one: a store or an index, anywhere."""
    for suffix in ("", *_BESIDE_DATABASES):
        database = name[: len(name) - len(suffix)]
        if name.casefold().endswith(suffix) and database and _is_database(folder, database):
            raise PathRefused(path, "it belongs to a SQLite database, and is not written by tools")


def _is_database(folder: int, name: str) -> bool:
    try:
        if identity(os.stat(name, dir_fd=folder, follow_symlinks=False)) in open_databases():
            return True  # and is not opened to look
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return False
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and os.read(descriptor, len(_SQLITE)) == _SQLITE
    finally:
        os.close(descriptor)


def _is_closed(name: str) -> bool:
    return _folded(name) in CLOSED_FOLDERS


def _folded(name: str) -> str:
    """A name as a file system may read it that ignores case, or characters that are not seen."""
    seen = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", seen).casefold()


def _without_detours(path: str, parts: Iterable[str]) -> list[str]:
    """The parts with every `..` applied. As text: writing follows no link, so that both are the same."""
    kept: list[str] = []
    for part in parts:
        if part != "..":
            kept.append(part)
        elif kept:
            kept.pop()
        else:
            raise PathRefused(path, "it leads out of the roots")
    return kept


def _decoded(content: bytes, *, is_cut: bool) -> tuple[str, bool]:
    """The text, and whether it looks like none."""
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return _text(content[len(mark) :], encoding, is_cut=is_cut), False
    return _text(content, "utf-8", is_cut=is_cut), b"\0" in content[:8192]


def _text(content: bytes, encoding: str, *, is_cut: bool) -> str:
    # Not final when the file goes on: a character that is cut in two is left off, not replaced.
    return codecs.getincrementaldecoder(encoding)("replace").decode(content, final=not is_cut)


def _entry(found: os.DirEntry[str]) -> FolderEntry:
    name = os.fsencode(found.name).decode("utf-8", "replace")
    if found.is_symlink():
        return FolderEntry(name=name, kind="link")
    if found.is_dir(follow_symlinks=False):
        return FolderEntry(name=name, kind="folder")
    if not found.is_file(follow_symlinks=False):
        return FolderEntry(name=name, kind="other")
    with suppress(OSError):  # it went while we looked
        return FolderEntry(name=name, kind="file", size=found.stat(follow_symlinks=False).st_size)
    return FolderEntry(name=name, kind="file")


def _replace(folder: int, name: str, content: bytes, path: str) -> None:
    """Write beside the file and rename over it: who reads it sees the old text or the new one, never half."""
    mode = _mode_of(folder, name, path)
    temporary = f".weft-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # A new file gets what the umask leaves; one that replaces a private file is never more open than that.
    descriptor = os.open(temporary, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())  # else a crash of the machine could leave an empty file
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _mode_of(folder: int, name: str, path: str) -> int | None:
    """The permissions of the file that is to be replaced; None when there is none."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise PathRefused(path, "it is a link, and nothing is written through links")
    if stat.S_ISDIR(found.st_mode):
        raise FileUnavailable(path, "it is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise PathRefused(path, "it is no ordinary file")
    if not found.st_mode & 0o222:
        raise OSError(errno.EACCES, "the file is read-only")
    return stat.S_IMODE(found.st_mode) & 0o777
