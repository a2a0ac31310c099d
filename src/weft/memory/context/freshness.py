"""Whether what was found is still what the files say."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from weft.memory.context.items import FactsOf, by_file
from weft.memory.protocol import FileFacts, Match


def stale_files(matches: Iterable[Match], facts_of: FactsOf) -> dict[str, list[str]]:
    """The paths, by root, of files that have changed or gone since they were indexed."""
    found: dict[str, list[str]] = {}
    for root, path in by_file(matches):
        if not _is_fresh(Path(root, path), facts_of(root, path)):
            found.setdefault(root, []).append(path)
    return found


def unreadable(files: Mapping[str, Sequence[str]]) -> frozenset[Path]:
    """Those of the files, by root, that are there and may not be read."""
    return frozenset(
        Path(root, path) for root, paths in files.items() for path in paths if _is_closed(Path(root, path))
    )


def _is_closed(file: Path) -> bool:
    try:
        os.close(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
    except PermissionError:
        return True
    except OSError:  # it went, or is something else by now
        return False
    return False


def _is_fresh(file: Path, facts: FileFacts | None) -> bool:
    try:
        now = file.lstat()
    except OSError:
        return False
    if facts is None:
        return False
    # Times are compared as they were made of nanoseconds for the facts.
    seen = (now.st_size, now.st_mtime_ns / 1e9, now.st_ctime_ns / 1e9)
    return seen == (facts.size, facts.changed_at, facts.inode_changed_at)
