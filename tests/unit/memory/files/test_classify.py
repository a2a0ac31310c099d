"""What a file is for, by its path."""

import pytest

from tests.batches import batched
from weft.memory.files.classify import kind_factor


@pytest.mark.parametrize(
    "path",
    [
        "src/history/undo_stack.py", "src/history.py", "changeset.py", "src/change_password.py",
        "newsletter/send.py", "news/feed.py", "license_server.py", "src/licenses/check.go",
        "readme_writer.py", "docstore/a.py", "contest.py", "latest/a.py", "my.test.d/run.py", "aconftest.py",
    ],
)  # fmt: skip
def test_a_program_counts_whole_whatever_its_name_begins_with(path: str) -> None:
    assert kind_factor(path, frozenset()) == 1


@batched(
    "path",
    [
        "tests/a.py", "src/test_a.py", "a_test.go", "web/a.test.js", "conftest.py", "sub/conftest.py",
        "README.md", "README", "CHANGES", "sub/ChangeLog", "LICENSE", "LICENCE-MIT", "HISTORY.rst",
        "NEWS", "COPYING", "docs/build.py", "a.min.js", "index.html",
    ],
)  # fmt: skip
def test_tests_texts_and_markup_count_less(path: str) -> None:
    assert kind_factor(path, frozenset()) < 1


def test_what_the_query_asks_for_counts_whole() -> None:
    assert kind_factor("tests/a.py", frozenset(("test",))) == 1
    assert kind_factor("a.toml", frozenset(("toml",))) == 1
