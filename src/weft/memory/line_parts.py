"""Parts of very long lines, as of minified files: put together, with notes on what is left out."""

from collections.abc import Iterable

from weft.memory.protocol import Match

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
