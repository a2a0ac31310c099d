"""Matches as items of a `DataContext`: one per file, in the order of lines."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from weft.evaluator.results import MatchItem
from weft.memory.protocol import FileFacts, Match

Parts = dict[tuple[int, int, int], str]
"""The texts of parts of one line by their places: from, up to, and how many characters the line has."""


def parts_by_line(matches: Iterable[Match]) -> dict[int, Parts]:
    """The parts that were found of each line that is cut into parts."""
    found: dict[int, Parts] = {}
    for match in matches:
        if match.chunk.part is not None:
            found.setdefault(match.chunk.first_line, {})[match.chunk.part] = match.chunk.text
    return found


def joined_parts(parts: Parts) -> str:
    """The line as far as it was found."""
    texts: list[str] = []
    place = 0
    for (start, end, _), text in sorted(parts.items()):
        texts += [_left_out(start - place), text]
        place = end
    length = max(part[2] for part in parts)
    return "".join([*texts, _left_out(length - place)])


def has_whole_lines(matches: Iterable[Match]) -> bool:
    """Whether no line is there in part only."""
    return all(
        sum(end - start for start, end, _ in parts) == length
        for parts in parts_by_line(matches).values()
        for _, _, length in list(parts)[:1]
    )


def _left_out(characters: int) -> str:
    return f" [{characters} characters of this line are left out] " if characters > 0 else ""


CHUNK, WHOLE, SUMMARY = "code_chunk", "file_content", "file_summary"

MAX_LISTED_SYMBOLS = 60
"""How many names the summary of a file lists."""

FactsOf = Callable[[str, str], FileFacts | None]


def by_file(matches: Iterable[Match]) -> dict[tuple[str, str], list[Match]]:
    """The matches by root and path; files in the order in which the first match of each comes."""
    found: dict[tuple[str, str], list[Match]] = {}
    for match in matches:
        found.setdefault((match.chunk.root, match.chunk.path), []).append(match)
    return found


def shown_path(root: str, path: str, base: str) -> str:
    """The path as tools take it: relative to `base` if it is inside, else absolute."""
    whole = PurePosixPath(root) / path
    return str(whole.relative_to(base)) if whole.is_relative_to(base) else str(whole)


def items_of(matches: Iterable[Match], facts_of: FactsOf, base: str) -> tuple[MatchItem, ...]:
    """An item for each file, of all its matches; files in the order of their first match."""
    return tuple(
        _item(found, facts_of(root, path), shown_path(root, path, base))
        for (root, path), found in by_file(matches).items()
    )


def summaries_of(matches: Iterable[Match], facts_of: FactsOf, base: str) -> tuple[MatchItem, ...]:
    """What is known of each file, instead of its text: the strategy `metadata`."""
    return tuple(
        _summary(found, facts_of(root, path), shown_path(root, path, base))
        for (root, path), found in by_file(matches).items()
    )


def _item(matches: Sequence[Match], facts: FileFacts | None, path: str) -> MatchItem:
    spans = joined(matches)
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
        for place, words in match.why.items():
            why.setdefault(place, {}).update(dict.fromkeys(words))
    found: dict[str, Any] = {
        "root": matches[0].chunk.root,
        "why": {place: list(words) for place, words in why.items()},
    }
    if facts is not None:
        found["changed_at"] = facts.changed_at
        if facts.language is not None:
            found["language"] = facts.language
    return found


def joined(matches: Sequence[Match]) -> list[tuple[int, int, list[str]]]:
    """First line, last line and lines of each stretch; pieces that overlap or touch are one."""
    spans: list[tuple[int, int, list[str]]] = []
    for first, last, lines in sorted(_stretches(matches), key=lambda each: (each[0], -each[1])):
        if not spans or first > spans[-1][1] + 1:
            spans.append((first, last, lines))
        elif last > spans[-1][1]:
            begin, end, before = spans[-1]
            spans[-1] = (begin, last, before + lines[end + 1 - first :])
    return spans


def _stretches(matches: Sequence[Match]) -> Iterator[tuple[int, int, list[str]]]:
    """The lines of each piece; all the parts of a long line that were found are one."""
    for line, parts in parts_by_line(matches).items():
        yield line, line, [joined_parts(parts)]
    for match in matches:
        chunk = match.chunk
        if chunk.part is None:
            # The last of its lines may be empty.
            lines = chunk.text.split("\n")[: chunk.last_line - chunk.first_line + 1]
            yield chunk.first_line, chunk.last_line, lines


def ranges_text(lines: Iterable[tuple[int, int]]) -> str:
    """Ranges of lines in words: `1-30,60-90`."""
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
