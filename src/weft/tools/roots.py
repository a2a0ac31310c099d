"""Roots: the folders that tools and `file_paths` may use. All their file access goes through this module."""

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

from weft.config.paths import find_open_databases, identity
from weft.limits import decode_text, is_unicode
from weft.tools.safe_open import FileUnavailable, PathRefused, Walk, open_file, parts_of

MAX_READ_BYTES = 1024 * 1024
"""Default limit for reading a file: more than any model's context window."""

MAX_WRITE_BYTES = 16 * 1024 * 1024
"""Maximum size of a written text: no model writes that much on purpose."""

MAX_ENTRIES = 1000
"""Maximum number of listed entries of a folder; further ones are only counted."""

CLOSED_FOLDERS = frozenset({".git", ".weft"})
"""Neither read nor written: `.git/config` may contain a token, `.git/hooks` are executables, and a store has
the inputs and results of all tasks, also of other owners."""

READ_ONLY_FILES = frozenset({"weft.toml", ".mcp.json"})
"""Read, but never written: they decide which executables run and what tools may do."""

_MODULE_SUFFIXES = tuple(all_suffixes())

_SQLITE_HEADER = b"SQLite format 3\0"
_DATABASE_SUFFIXES = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps next to a database; overwriting them damages it."""

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class FileText(Struct, frozen=True, kw_only=True):
    """The text of a file, perhaps truncated."""

    path: str
    text: str
    """Decoded as UTF-8, or as UTF-16 with a byte order mark; invalid bytes are replaced by U+FFFD."""
    size: int
    """Size of the whole file, in bytes."""
    is_cut: bool = False
    """True if the text is truncated."""
    is_binary: bool = False
    """True if the start of the file has NUL bytes and no byte order mark."""


class FolderEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry of a folder."""

    name: str
    kind: Literal["file", "folder", "link", "other"]
    size: int | None = None
    """Size of a file, in bytes."""


class Listing(Struct, frozen=True, kw_only=True):
    """Entries of a folder, sorted by name."""

    entries: tuple[FolderEntry, ...]
    left_off: int = 0
    """Number of entries beyond those listed."""


class Roots:
    """Folders in which files may be read and written.

    A path is relative to the first root, or absolute and inside any root. Reading follows links that stay
    inside the roots; writing follows none. A root may be a link itself. A hard link inside a root to a file
    outside is treated as a file of that root, as the two cannot be distinguished.
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
        """Set the roots and the files that may not be written, in addition to `READ_ONLY_FILES`.

        `kept_modules` are names of Python modules, in any folder. `kept_packages` are paths without a suffix,
        including all modules below them. `keeps_imports` adds the modules that this process has imported,
        compiled modules, and the packages installed for this Python.
        """
        given = [Path(folder).absolute() for folder in folders]
        if not given:
            raise ValueError("there must be at least one root")
        # A caller may use the path of a root as given, or with links resolved.
        self._resolved_by_path = {
            path: folder.resolve() for folder in given for path in (folder, folder.resolve())
        }
        self.folders = tuple(dict.fromkeys(self._resolved_by_path.values()))
        self._kept_files = frozenset(map(_folded, READ_ONLY_FILES | set(kept_files)))
        self._kept_modules = [
            tuple(map(_folded, names[:length]))
            for names in (module.split(".") for module in kept_modules)
            for length in range(1, len(names) + 1)  # enclosing packages are imported too
        ]
        self._kept_packages = [tuple(map(_folded, Path(package).parts)) for package in kept_packages]
        self._keeps_imports = keeps_imports

    def read(self, path: str, *, max_bytes: int = MAX_READ_BYTES) -> FileText:
        """Return the text of a file, truncated to `max_bytes`."""
        with self._walk(path) as walk:
            name = walk.go_to(self._begin(path, walk))
            if name is None:
                raise FileUnavailable(path, "it is a folder")
            with os.fdopen(open_file(walk, name, path), "rb") as file:
                start = file.read(max_bytes + 1)
                size = max(os.fstat(file.fileno()).st_size, len(start))
        is_cut = len(start) > max_bytes
        text, is_binary = _decode(start[:max_bytes], is_cut=is_cut)
        return FileText(path=path, text=text, size=size, is_cut=is_cut, is_binary=is_binary)

    def list(self, path: str = ".", *, max_entries: int = MAX_ENTRIES) -> Listing:
        """Return the entries of a folder, sorted by name."""
        with self._walk(path) as walk:
            name = walk.go_to(self._begin(path, walk))
            if name is not None:
                os.close(open_file(walk, name, path))  # raises if there is no such file
                raise FileUnavailable(path, "it is a file, not a folder")
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
        """Write a text to a file atomically, creating missing folders. Return its size in bytes.

        An existing file keeps its mode. Links are not followed, and read-only files are not replaced.
        """
        if not is_unicode(text):
            raise FileUnavailable(path, "the text has a lone surrogate, which is not valid UTF-8")
        content = text.encode()
        if len(content) > MAX_WRITE_BYTES:
            raise FileUnavailable(path, f"the text has {len(content)} bytes; the limit is {MAX_WRITE_BYTES}")
        with self._walk(path) as walk:
            parts = _without_detours(path, self._begin(path, walk))
            if not parts or path.rpartition("/")[2] in ("", ".", ".."):
                raise FileUnavailable(path, "it is a folder")
            if _is_closed(parts[-1]):
                raise PathRefused(path, f"tools may not access '{parts[-1]}'")
            if self._is_kept([*walk.root.parts, *parts]):
                raise PathRefused(path, "it decides what may run, so tools may not write it")
            walk.make_folders(parts[:-1])
            _refuse_databases(walk.folder, parts[-1], path)
            try:
                _replace(walk.folder, parts[-1], content, path)
            except OSError as error:
                raise FileUnavailable(path, (error.strerror or str(error)).lower()) from None
        return len(content)

    def place(self, path: str) -> Path:
        """Return the resolved path of a writable file or folder for another process; it need not exist.

        This is not safe against someone who replaces a folder by a link between this call and the use of the
        path.
        """
        with self._walk(path) as walk, suppress(FileUnavailable):  # the path may not exist yet
            walk.go_to(self._begin(path, walk))
        found = (self.folders[0] / path).resolve()
        root = next((folder for folder in self.folders if found.is_relative_to(folder)), None)
        if root is None:
            raise PathRefused(path, "it leads out of the roots")
        parts = found.relative_to(root).parts
        if any(map(_is_closed, parts)):
            raise PathRefused(path, "tools may not access it")
        if parts and self._is_kept(found.parts):
            raise PathRefused(path, "it decides what may run, so tools may not write it")
        if parts and found.parent.is_dir():
            folder = os.open(found.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                _refuse_databases(folder, found.name, path)
            finally:
                os.close(folder)
        return found

    def _is_kept(self, parts: Sequence[str]) -> bool:
        """Return True if a file may not be written. Module names are matched in any folder."""
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
        file = Path(*parts)
        # Python may load a compiled module without comparing its code with the source.
        return (
            "__pycache__" in folders
            or any(file.is_relative_to(folder) for folder in _startup_folders())
            or _is_imported(file)
        )

    def _walk(self, path: str) -> Walk:
        if not isinstance(path, str):
            raise TypeError("a path must be a string")
        return Walk(path, self._resolved_by_path, is_closed=_is_closed)

    def _begin(self, path: str, walk: Walk) -> Sequence[str]:
        """Enter the root of the path. Return the parts below the root."""
        if path.startswith("/"):
            return walk.begin(path)
        parts = parts_of(path)
        walk.enter_root(self.folders[0])
        return parts


def _is_imported(path: Path) -> bool:
    """Return True if this process imported a module from the file, or if a new file here could replace one.

    A new package replaces a module with the same name, as packages take precedence.
    """
    known = None
    with suppress(OSError):
        known = identity(path.stat())
    module = _module_at(path)
    name = _folded(module.name)
    for file in _module_files():
        with suppress(OSError):
            if known is not None and identity(os.stat(file)) == known:  # noqa: PTH116 - there are a thousand
                return True
        # Compare the name first: resolving a path takes a system call for each of its folders.
        if _folded(file.removesuffix("/__init__.py").rpartition("/")[2].partition(".")[0]) == name:
            found = _module_at(Path(file))
            if _folded(found.name) == name and found.parent.resolve() == module.parent:
                return True
    return False


def _module_files() -> Iterator[str]:
    """Yield the source and compiled files of the modules of this process."""
    for module in list(sys.modules.values()):
        for file in (getattr(module, "__file__", None), getattr(module, "__cached__", None)):
            if isinstance(file, str):
                yield file


def _module_at(file: Path) -> Path:
    """Return the path of a file's module without a suffix; for a package this is its folder."""
    stem = file.name.partition(".")[0]
    return file.parent if stem == "__init__" else file.parent / stem


def _startup_folders() -> list[Path]:
    """Return the folders of files that Python may run at startup: virtual environment and site-packages."""
    folders = [Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    if sys.prefix != sys.base_prefix:
        folders.append(Path(sys.prefix))
    return [folder.resolve() for folder in folders]


def _refuse_databases(folder: int, name: str, path: str) -> None:
    """Raise PathRefused for a SQLite database and its log files: it may be a store or an index."""
    for suffix in ("", *_DATABASE_SUFFIXES):
        database = name[: len(name) - len(suffix)]
        if name.casefold().endswith(suffix) and database and _is_database(folder, database):
            raise PathRefused(path, "it belongs to a SQLite database, so tools may not write it")


def _is_database(folder: int, name: str) -> bool:
    try:
        if identity(os.stat(name, dir_fd=folder, follow_symlinks=False)) in find_open_databases():
            return True  # without opening the file: closing it would release our locks
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return False
    try:
        return (
            stat.S_ISREG(os.fstat(descriptor).st_mode)
            and os.read(descriptor, len(_SQLITE_HEADER)) == _SQLITE_HEADER
        )
    finally:
        os.close(descriptor)


def _is_closed(name: str) -> bool:
    return _folded(name) in CLOSED_FOLDERS


def _folded(name: str) -> str:
    """Return a name as read by a file system that ignores case or invisible characters."""
    visible = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", visible).casefold()


def _without_detours(path: str, parts: Iterable[str]) -> list[str]:
    """Apply each `..` in the parts. Doing this lexically is safe, because writing follows no links."""
    kept: list[str] = []
    for part in parts:
        if part != "..":
            kept.append(part)
        elif kept:
            kept.pop()
        else:
            raise PathRefused(path, "it leads out of the roots")
    return kept


def _decode(content: bytes, *, is_cut: bool) -> tuple[str, bool]:
    """Return the text, and True if the content looks binary."""
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return _text(content[len(mark) :], encoding, is_cut=is_cut), False
    return _text(content, "utf-8", is_cut=is_cut), b"\0" in content[:8192]


def _text(content: bytes, encoding: str, *, is_cut: bool) -> str:
    # Not final if the text is truncated: an incomplete character at the end is dropped, not replaced.
    return codecs.getincrementaldecoder(encoding)("replace").decode(content, final=not is_cut)


def _entry(found: os.DirEntry[str]) -> FolderEntry:
    name = decode_text(os.fsencode(found.name))
    if found.is_symlink():
        return FolderEntry(name=name, kind="link")
    if found.is_dir(follow_symlinks=False):
        return FolderEntry(name=name, kind="folder")
    if not found.is_file(follow_symlinks=False):
        return FolderEntry(name=name, kind="other")
    with suppress(OSError):  # deleted meanwhile
        return FolderEntry(name=name, kind="file", size=found.stat(follow_symlinks=False).st_size)
    return FolderEntry(name=name, kind="file")


def _replace(folder: int, name: str, content: bytes, path: str) -> None:
    """Write a temporary file and rename it over the old one, so that readers see the old or the new text."""
    mode = _mode_of(folder, name, path)
    temporary = f".weft-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # A new file gets the permissions of the umask; one that replaces a private file is never more open.
    descriptor = os.open(temporary, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())  # without it a crash of the machine could leave an empty file
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _mode_of(folder: int, name: str, path: str) -> int | None:
    """Return the permissions of the file to replace; None if it is new. Raise if it cannot be replaced."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise PathRefused(path, "it is a link, and nothing is written through links")
    if stat.S_ISDIR(found.st_mode):
        raise FileUnavailable(path, "it is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise PathRefused(path, "it is not a regular file")
    if not found.st_mode & 0o222:
        raise OSError(errno.EACCES, "the file is read-only")
    return stat.S_IMODE(found.st_mode) & 0o777
