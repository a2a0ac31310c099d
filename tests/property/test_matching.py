"""Whatever is asked, an answer is sorted, bounded, the same again, and never an error."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.memory.index.index import SqliteIndex
from weft.memory.protocol import Match, Query, QueryPart
from weft.memory.search.matcher import LexicalMatcher

FILES = {
    "app/event_loop.py": "class EventLoop:\n    def run_forever(self):\n        return self.tasks\n",
    "app/tasks.py": "def cancel_task(task):\n    '''Cancel a task of the event loop.'''\n    task.cancel()\n",
    "app/__init__.py": "",
    "app/views/table.py": "def render_table(rows):\n    return rows\n" * 40,
    "docs/guide.md": "# Guide\n\nHow to cancel a task.\n\n## Tables\n\nRows of a table.\n",
    "tests/test_tasks.py": "def test_cancel():\n    assert cancel_task\n",
    "we ird/näme+1.py": "VALUE = 1\n",
    "static/style.css": ".table { color: red }\n",
}
WORDS = sorted({word for text in FILES.values() for word in text.replace("(", " ").split()})

syntax = st.sampled_from(
    ['"', "'", "*", "^", "(", ")", ":", "{", "}", "-", "+", "AND", "OR", "NOT", "NEAR(", "%", "_", "\0"]
)
texts = st.lists(st.sampled_from(WORDS) | syntax | st.text(max_size=12), max_size=12).map(" ".join)
parts = st.builds(QueryPart, texts, st.floats(0, 10))


@pytest.fixture(scope="module")
def matcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LexicalMatcher]:
    folder = tmp_path_factory.mktemp("matching")
    root = folder / "root"
    for path, text in FILES.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    index = SqliteIndex(folder / "index.db")
    index.update([root])
    matcher = LexicalMatcher(index)
    yield matcher
    matcher.close()
    index.close()


def ask(matcher: LexicalMatcher, *texts: str) -> list[Match]:
    return matcher.match(Query(parts=tuple(QueryPart(text) for text in texts)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(parts, max_size=4), st.sampled_from(["content", "metadata"]), st.integers(0, 30))
def test_scores_are_between_0_and_1_and_fall(
    matcher: LexicalMatcher, drawn: list[QueryPart], strategy: str, limit: int
) -> None:
    query = Query(
        parts=tuple(drawn), strategy="metadata" if strategy == "metadata" else "content", limit=limit
    )

    matches = matcher.match(query)

    scores = [match.score for match in matches]
    assert all(0 <= score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert len(matches) <= limit
    assert matches == matcher.match(query)
    places = [(match.chunk.path, match.chunk.first_line) for match in matches]
    assert len(set(places)) == len(places)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from([path for path in FILES if FILES[path] and " " not in path]), texts, texts)
def test_a_file_whose_path_is_in_the_query_comes_first(
    matcher: LexicalMatcher, path: str, before: str, after: str
) -> None:
    others = {mention.strip("\0") for text in (before, after) for mention in text.split()}
    query = f"cancel a task in {path} of the event loop"
    if not others & FILES.keys():
        query = f"{before} {path} {after}"

    assert ask(matcher, query)[0].chunk.path == path


@pytest.mark.parametrize(
    "query",
    [
        '"',
        'task" OR "loop',
        "NEAR(task loop, 2)",
        "task AND NOT",
        "path : task",
        "{path} : x",
        "^task*",
        "-task",
        "task\0loop",
        "\0",
        "\ud800 task \udfff",
        "\N{PILE OF POO} \N{FAMILY}",
        "the of and to",
        "",
        "   \n\t",
        "task " * 20_000,
        " ".join(f"word{number}" for number in range(15_000)),
        "x" * 100_000,
        "aB" * 50_000,
        "../../etc/passwd",
        "%/%",
        "e\u0301 \u0130 \ufb01 \u0e01\u0e33",
        "a/" * 5_000,
    ],
)
@pytest.mark.parametrize("strategy", ["content", "metadata"])
def test_no_query_is_an_error(matcher: LexicalMatcher, query: str, strategy: str) -> None:
    asked = Query(parts=(QueryPart(query),), strategy="metadata" if strategy == "metadata" else "content")

    assert matcher.match(asked) == matcher.match(asked)
