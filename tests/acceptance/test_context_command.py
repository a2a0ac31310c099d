"""`weft context` and tasks with fresh context, as a person runs them."""

import subprocess
from pathlib import Path

import pytest

from tests import command_line
from tests.command_line import Ran
from weft.memory.index.database import lock_updates

PRICES = '"""Prices of the shop."""\n\n\ndef rounded_price(amount):\n    return round(amount, 2)\n'


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "prices.py").write_text(PRICES)
    (tmp_path / "lib" / "mail.py").write_text("def send_mail(to):\n    return to\n")
    (tmp_path / "secret.log").write_text("rounded_price\n")
    (tmp_path / ".gitignore").write_text("*.log\n")
    return tmp_path


def weft(folder: Path, *arguments: str) -> Ran:
    """Run `weft` in a folder, with the store that is the folder's own."""
    return command_line.weft(*arguments, db=None, cwd=folder)


def test_a_table_of_files_lines_scores_and_words(shop: Path) -> None:
    first = weft(shop, "context", "rounded price")
    second = weft(shop, "context", "rounded price", "--explain")

    assert (first.code, second.code) == (0, 0)
    assert "indexing the files" in first.err
    assert second.err == f"searched {shop}\n"  # nothing is new
    head, row = first.out.splitlines()[:2]
    assert head.split() == ["FILE", "SCORE", "WHY"]
    assert row.startswith("lib/prices.py")
    assert 0 < float(row.split()[1]) <= 1
    assert "rounded" in row
    assert "secret.log" not in first.out
    assert "symbols: " in second.out


def test_an_explanation_says_when_a_file_was_committed(shop: Path) -> None:
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "lib/prices.py"], [*name, "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=shop, check=True, capture_output=True)

    found = weft(shop, "context", "rounded price send mail", "--explain", "--json")

    times = {item["source_path"]: item["metadata"].get("committed_at") for item in found.json["matches"]}
    assert times["lib/prices.py"] > 1_700_000_000
    assert times["lib/mail.py"] is None


def test_another_store_and_which_roots_are_looked_in(shop: Path) -> None:
    other = shop.parent / "other.db"
    assert weft(shop, "index", "lib", "--db", str(other)).code == 0

    inside = weft(shop, "context", "rounded price", "--path", "lib", "--db", str(other))
    everywhere = weft(shop, "context", "rounded price", "--db", str(other))

    assert inside.err == f"searched {shop / 'lib'}\n"  # nothing is new there
    assert "indexing the files" in everywhere.err  # those outside lib are
    assert inside.out.splitlines()[1].startswith("lib/prices.py")
    assert everywhere.out.splitlines()[1].startswith("lib/prices.py")
    assert not (shop / ".weft").exists()


def test_json_is_the_match_result_and_the_same_as_in_the_language(shop: Path) -> None:
    found = weft(shop, "context", "rounded price", "--json")
    evaluated = weft(shop, "eval", '(get-context :query "rounded price")', "--json")
    by_tool = weft(shop, "eval", '(system:get_context :query "rounded price")', "--json")

    assert set(found.json) == {"context_summary", "matches"}
    best = found.json["matches"][0]
    assert (best["source_path"], best["content"]) == ("lib/prices.py", PRICES)
    assert evaluated.json["value"] == by_tool.json["value"] == found.json


def test_a_change_is_seen_at_once(shop: Path) -> None:
    assert weft(shop, "context", "giraffe").out == "no matches\n"
    (shop / "giraffe.txt").write_text("giraffe\n")

    assert "giraffe.txt" in weft(shop, "context", "giraffe").out


def test_a_question_does_not_wait_for_another_process_that_indexes(shop: Path) -> None:
    weft(shop, "index", ".")
    (shop / "giraffe.txt").write_text("giraffe\n")

    with lock_updates(shop / ".weft" / "index.db", 0, None, is_shared=False):
        meanwhile = weft(shop, "context", "rounded price giraffe")

    assert meanwhile.code == 0
    assert meanwhile.err.count("another process is updating the index") == 1
    assert "lib/prices.py" in meanwhile.out
    assert "giraffe.txt" not in meanwhile.out
    assert "giraffe.txt" in weft(shop, "context", "giraffe").out


def test_another_folder_a_limit_and_a_strategy(shop: Path, tmp_path: Path) -> None:
    found = weft(shop, "context", "mail", "--path", "lib", "--limit", "1", "--strategy", "metadata", "--json")

    (item,) = found.json["matches"]
    assert (item["source_path"], item["content_type"]) == ("lib/mail.py", "file_summary")
    assert weft(shop, "context", "mail", "--path", "none").code == 2


def test_an_index_that_cannot_be_made_is_an_error(shop: Path) -> None:
    (shop / ".weft").write_text("in the way")

    found = weft(shop, "context", "mail", "--json")

    assert found.code == 1
    assert "cannot be opened" in found.json["error"]["message"]


def test_the_embedded_model_can_rank(shop: Path) -> None:
    """For the shape: which pieces so small a model prefers is near chance."""
    ranked = weft(shop, "context", "rounded price", "--rerank", "--model", "local:smollm2-135m", "--json")

    assert ranked.code == 0, ranked.err
    assert ranked.json.get("error") is None
    assert {item["source_path"] for item in ranked.json["matches"]} >= {"lib/prices.py"}


def test_folders_that_are_indexed_too_are_named_when_nothing_matches(shop: Path) -> None:
    (shop / "docs").mkdir()
    weft(shop, "index", "lib", "docs")

    found = weft(shop, "context", "zebra crossing", "--path", "docs")

    assert (found.out, found.code) == ("no matches\n", 0)
    assert found.err.endswith(
        f"searched {shop / 'docs'}\nalso indexed, search them with --path: {shop / 'lib'}\n"
    )
