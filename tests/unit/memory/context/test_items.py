"""Pieces of files become one item for each file."""

from weft.memory.context.items import items_of, merge_lines
from weft.memory.protocol import Chunk, FileFacts, Match, Symbol

LINES = [f"line {number}" for number in range(1, 101)]


def a_match(first: int, last: int, *, path: str = "a.py", score: float = 0.5, root: str = "/r") -> Match:
    text = "\n".join(LINES[first - 1 : last])
    chunk = Chunk(root=root, path=path, first_line=first, last_line=last, text=text)
    return Match(chunk=chunk, score=score, why={"content": (f"word{first}",)})


def facts_of(root: str, path: str) -> FileFacts | None:
    if path == "gone.py":
        return None
    symbols = tuple(Symbol(f"name{number}", "function", number) for number in range(70))
    return FileFacts(
        root=root, path=path, size=9, lines=100, language="python", symbols=symbols, changed_at=5.0
    )


def test_pieces_that_overlap_or_touch_are_one() -> None:
    spans = merge_lines([a_match(41, 50), a_match(1, 20), a_match(15, 40), a_match(16, 18), a_match(60, 61)])

    assert [(first, last) for first, last, _ in spans] == [(1, 50), (60, 61)]
    assert spans[0][2] == LINES[:50]


def test_empty_lines_at_the_end_of_a_piece_are_lines_of_it() -> None:
    def piece(first: int, last: int, text: str) -> Match:
        chunk = Chunk(root="/r", path="a.py", first_line=first, last_line=last, text=text)
        return Match(chunk=chunk, score=0.5)

    assert merge_lines([piece(1, 2, "a\n"), piece(3, 4, "b\n\n")]) == [(1, 4, ["a", "", "b", ""])]


def a_part(start: int, end: int, line: str = "abcdefghij") -> Match:
    chunk = Chunk(
        root="/r", path="a.js", first_line=1, last_line=1, text=line[start:end], part=(start, end, len(line))
    )
    return Match(chunk=chunk, score=0.5)


def one_line(root: str, path: str) -> FileFacts:
    return FileFacts(root=root, path=path, size=10, lines=1, changed_at=5.0)


def test_parts_of_a_line_are_one_line_that_says_what_is_left_out() -> None:
    (item,) = items_of([a_part(6, 8), a_part(2, 4)], one_line, "/r")

    assert item.content == (
        " [2 characters of this line are left out] cd"
        " [2 characters of this line are left out] gh [2 characters of this line are left out] \n"
    )
    assert (item.id, item.content_type) == ("a.js:1-1", "code_chunk")


def test_all_parts_of_a_line_are_the_line() -> None:
    (item,) = items_of([a_part(5, 10), a_part(0, 5)], one_line, "/r")

    assert (item.content, item.content_type) == ("abcdefghij\n", "file_content")


def test_a_file_is_one_item_in_the_order_of_its_lines() -> None:
    matches = [a_match(61, 70, score=0.9), a_match(1, 10, path="b.py", score=0.8), a_match(1, 10, score=0.1)]

    first, second = items_of(matches, facts_of, "/r")

    assert (first.id, first.source_path, first.relevance_score) == ("a.py:1-10,61-70", "a.py", 0.9)
    assert first.content.splitlines() == [*LINES[:10], "[lines 11 to 60 are left out]", *LINES[60:70]]
    assert first.metadata["lines"] == [[1, 10], [61, 70]]
    assert first.metadata["why"] == {"content": ["word61", "word1"]}
    assert first.metadata["language"] == "python"
    assert (first.content_type, second.id) == ("code_chunk", "b.py:1-10")


def test_all_lines_of_a_file_are_the_file() -> None:
    (item,) = items_of([a_match(1, 60), a_match(50, 100)], facts_of, "/r")

    assert (item.id, item.content_type) == ("a.py", "file_content")
    assert item.content == "\n".join(LINES) + "\n"


def test_a_file_that_has_gone_since_is_still_what_was_found() -> None:
    (item,) = items_of([a_match(1, 2, path="gone.py")], facts_of, "/r")

    assert item.id == "gone.py:1-2"


def test_a_file_of_a_further_root_has_its_whole_path() -> None:
    (item,) = items_of([a_match(1, 2, root="/other")], facts_of, "/r")

    assert item.source_path == "/other/a.py"


def test_a_summary_says_what_a_file_is_and_not_what_is_in_it() -> None:
    (item,) = items_of([a_match(1, 2), a_match(5, 6)], facts_of, "/r", is_summary=True)

    assert (item.id, item.content_type) == ("a.py", "file_summary")
    assert "line 1" not in item.content
    assert "name59 and 10 more" in item.content
