"""Whether what was found is still what the files say."""

from collections.abc import Iterable
from pathlib import Path

from weft.memory.pieces import FactsOf, by_file
from weft.memory.protocol import FileFacts, Match


def stale_files(matches: Iterable[Match], facts_of: FactsOf) -> dict[str, list[str]]:
    """The paths, by root, of files that have changed or gone since they were indexed."""
    found: dict[str, list[str]] = {}
    for root, path in by_file(matches):
        if not _is_fresh(Path(root, path), facts_of(root, path)):
            found.setdefault(root, []).append(path)
    return found


def _is_fresh(file: Path, facts: FileFacts | None) -> bool:
    try:
        now = file.lstat()
    except OSError:
        return False
    # The time is compared as it was made of nanoseconds for the facts.
    return facts is not None and (now.st_size, now.st_mtime_ns / 1e9) == (facts.size, facts.changed_at)
