"""Checks that files have not changed since they were indexed."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from weft.memory.context.items import FactsOf, by_file
from weft.memory.protocol import FileFacts, Match


def find_stale_files(matches: Iterable[Match], facts_of: FactsOf) -> dict[str, list[str]]:
    """Return the paths, by root, of files that were changed or deleted since they were indexed."""
    found: dict[str, list[str]] = {}
    for root, path in by_file(matches):
        if not _is_fresh(Path(root, path), facts_of(root, path)):
            found.setdefault(root, []).append(path)
    return found


def find_unreadable(files: Mapping[str, Sequence[str]]) -> frozenset[Path]:
    """Return the files that exist but that this process may not read; `files` has paths by root."""
    return frozenset(
        Path(root, path) for root, paths in files.items() for path in paths if _is_denied(Path(root, path))
    )


def _is_denied(file: Path) -> bool:
    try:
        os.close(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
    except PermissionError:
        return True
    except OSError:  # deleted, or no longer a regular file
        return False
    return False


def _is_fresh(file: Path, facts: FileFacts | None) -> bool:
    try:
        now = file.lstat()
    except OSError:
        return False
    if facts is None:
        return False
    # The same conversion from nanoseconds as in the facts, so that equal times compare equal.
    seen = (now.st_size, now.st_mtime_ns / 1e9, now.st_ctime_ns / 1e9)
    return seen == (facts.size, facts.changed_at, facts.inode_changed_at)
