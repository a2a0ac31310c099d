"""What a shell is offered for the word under the cursor, and the scripts that ask for it."""

import json
from pathlib import Path

import pytest

from tests.command_line import weft


def completed(words: str, db: str) -> list[str]:
    """Return the completions of the last word, as bash asks for them."""
    given = {"_WEFT_COMPLETE": "bash_complete", "COMP_WORDS": f"weft {words}"}
    ran = weft(db=db, COMP_CWORD=str(len(f"weft {words}".split(" ")) - 1), **given)
    assert (ran.code, ran.err) == (0, "")
    return [line.partition(",")[2] for line in ran.out.splitlines() or [""]]


@pytest.fixture
def db(tmp_path: Path) -> str:
    db = str(tmp_path / "weft.db")
    flow = [{"name": "nightly", "id": "abcd0000-0000-4000-8000-000000000001"}]
    assert weft("flow", "submit", "-", db=db, stdin=json.dumps(flow)).code == 0
    (tmp_path / "review.sexp").write_text('(deftask review (path) :instructions "Review {{path}}")')
    assert weft("library", "add", tmp_path / "review.sexp", db=db).code == 0
    return db


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("tasks sh", ["show"]),
        ("tasks show ", ["abcd0000", "last"]),
        ("tasks show ab", ["abcd0000"]),
        ("tasks show abcd0000-", ["abcd0000-0000-4000-8000-000000000001"]),
        ("run --resume l", ["last"]),
        ("run rev", ["review", "rev"]),  # the second asks for files
        ("library show r", ["review"]),
        ("tasks tree --full", ["--full-ids"]),
    ],
)
def test_commands_options_ids_and_templates_are_offered(db: str, words: str, offered: list[str]) -> None:
    assert completed(words, db) == offered


def test_without_a_store_nothing_is_offered_and_nothing_is_made(tmp_path: Path) -> None:
    assert completed("tasks show ab", str(tmp_path / "none.db")) == [""]
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell_asks_weft(shell: str) -> None:
    ran = weft("completion", shell, db=None)

    assert f"_WEFT_COMPLETE={shell}_complete" in ran.out
    assert weft("completion", shell, "--json", db=None).json == {"script": ran.out.removesuffix("\n")}
