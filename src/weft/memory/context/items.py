"""Converts matches to items of a `DataContext`: one item per file, with its lines in order.

Also checks that the files of matches have not changed since they were indexed.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from weft.evaluator.results import MatchItem
from weft.memory.protocol import FileFacts, Match

Parts = dict[tuple[int, int, int], str]
"""Texts of the parts of one line by (first character, end, length of the line)."""


def parts_by_line(matches: Iterable[Match]) -> dict[int, Parts]:
    """Return the matched parts of each line that is split into parts, by line number."""
    found: dict[int, Parts] = {}
    for match in matches:
        if match.chunk.part is not None:
            found.setdefault(match.chunk.first_line, {})[match.chunk.part] = match.chunk.text
    return found


def join_parts(parts: Parts) -> str:
    """Return the line with notes in place of the parts that are missing."""
    texts: list[str] = []
    position = 0
    for (start, end, _), text in sorted(parts.items()):
        texts += [_left_out(start - position), text]
        position = end
    length = max(part[2] for part in parts)
    return "".join([*texts, _left_out(length - position)])


def has_whole_lines(matches: Iterable[Match]) -> bool:
    """Return True unless a line is only partly matched."""
    return all(
        sum(end - start for start, end, _ in parts) == length
        for parts in parts_by_line(matches).values()
        for _, _, length in list(parts)[:1]
    )


def _left_out(characters: int) -> str:
    return f" [{characters} characters of this line are left out] " if characters > 0 else ""


CHUNK, WHOLE, SUMMARY = "code_chunk", "file_content", "file_summary"

MAX_LISTED_SYMBOLS = 60
"""Maximum number of names in the summary of a file."""

FactsOf = Callable[[str, str], FileFacts | None]
"""Returns the metadata of a file by root and path; None if it is not indexed."""


def by_file(matches: Iterable[Match]) -> dict[tuple[str, str], list[Match]]:
    """Group the matches by root and path, in the order of each file's first match."""
    found: dict[tuple[str, str], list[Match]] = {}
    for match in matches:
        found.setdefault((match.chunk.root, match.chunk.path), []).append(match)
    return found


def shown_path(root: str, path: str, base: str) -> str:
    """Return the path in the form that tools accept: relative to `base` if inside it, else absolute."""
    whole = PurePosixPath(root) / path
    return str(whole.relative_to(base)) if whole.is_relative_to(base) else str(whole)


def items_of(
    matches: Iterable[Match], facts_of: FactsOf, base: str, *, is_summary: bool = False
) -> tuple[MatchItem, ...]:
    """Return one item per file, made of all its matches, in the order of the first matches.

    With `is_summary` (the strategy `metadata`) an item has the metadata of its file instead of its text.
    """
    make = _summary if is_summary else _item
    return tuple(
        make(found, facts_of(root, path), shown_path(root, path, base))
        for (root, path), found in by_file(matches).items()
    )


def _item(matches: Sequence[Match], facts: FileFacts | None, path: str) -> MatchItem:
    spans = merge_lines(matches)
    lines = [(first, last) for first, last, _ in spans]
    is_whole = facts is not None and lines == [(1, max(1, facts.lines))] and has_whole_lines(matches)
    return MatchItem(
        id=path if is_whole else f"{path}:{ranges_text(lines)}",
        content=_content(spans),
        content_type=WHOLE if is_whole else CHUNK,
        relevance_score=max(match.score for match in matches),
        source_path=path,
        metadata=_metadata(matches, facts) | {"lines": [list(span) for span in lines]},
    )


def _summary(matches: Sequence[Match], facts: FileFacts | None, path: str) -> MatchItem:
    parts = [path]
    if facts is not None:
        names = [symbol.name for symbol in facts.symbols]
        more = f" and {len(names) - MAX_LISTED_SYMBOLS} more" if len(names) > MAX_LISTED_SYMBOLS else ""
        parts += [f"language: {facts.language}"] if facts.language else []
        parts += [f"title: {facts.title}"] if facts.title else []
        parts += [f"defines: {', '.join(names[:MAX_LISTED_SYMBOLS])}{more}"] if names else []
    return MatchItem(
        id=path,
        content="\n".join(parts),
        content_type=SUMMARY,
        relevance_score=max(match.score for match in matches),
        source_path=path,
        metadata=_metadata(matches, facts),
    )


def _metadata(matches: Sequence[Match], facts: FileFacts | None) -> dict[str, Any]:
    why: dict[str, dict[str, None]] = {}
    for match in matches:
        for field, words in match.why.items():
            why.setdefault(field, {}).update(dict.fromkeys(words))
    found: dict[str, Any] = {
        "root": matches[0].chunk.root,
        "why": {field: list(words) for field, words in why.items()},
    }
    if facts is not None:
        found["changed_at"] = facts.changed_at
        if facts.language is not None:
            found["language"] = facts.language
    return found


def merge_lines(matches: Sequence[Match]) -> list[tuple[int, int, list[str]]]:
    """Merge chunks that overlap or touch. Return first line, last line and lines of each span."""
    spans: list[tuple[int, int, list[str]]] = []
    for first, last, lines in sorted(_chunk_lines(matches), key=lambda each: (each[0], -each[1])):
        if not spans or first > spans[-1][1] + 1:
            spans.append((first, last, lines))
        elif last > spans[-1][1]:
            begin, end, before = spans[-1]
            spans[-1] = (begin, last, before + lines[end + 1 - first :])
    return spans


def _chunk_lines(matches: Sequence[Match]) -> Iterator[tuple[int, int, list[str]]]:
    """Yield first line, last line and lines of each chunk; the parts of a long line are joined into one."""
    for line, parts in parts_by_line(matches).items():
        yield line, line, [join_parts(parts)]
    for match in matches:
        chunk = match.chunk
        if chunk.part is None:
            # Slice by line count: the text may end with a newline or with an empty last line.
            lines = chunk.text.split("\n")[: chunk.last_line - chunk.first_line + 1]
            yield chunk.first_line, chunk.last_line, lines


def ranges_text(lines: Iterable[tuple[int, int]]) -> str:
    """Format line ranges as `1-30,60-90`."""
    return ",".join(f"{first}-{last}" for first, last in lines)


def _content(spans: Sequence[tuple[int, int, list[str]]]) -> str:
    parts: list[str] = []
    before = 0
    for first, last, lines in spans:
        if before:
            parts.append(f"[lines {before + 1} to {first - 1} are left out]")
        parts += lines
        before = last
    return "\n".join(parts) + "\n"


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
    except OSError as error:  # else: deleted, or no longer a regular file
        return isinstance(error, PermissionError)
    return False


def _is_fresh(file: Path, facts: FileFacts | None) -> bool:
    try:
        now = file.lstat()
    except OSError:
        return False
    # The same conversion from nanoseconds as in the facts, so that equal times compare equal.
    seen = (now.st_size, now.st_mtime_ns / 1e9, now.st_ctime_ns / 1e9)
    return facts is not None and seen == (facts.size, facts.changed_at, facts.inode_changed_at)
