"""`weft models`, and what commands pay for models they do not ask."""

from pathlib import Path
from typing import Any

import pytest

from tests.command_line import weft

HEAVY = (
    "pydantic_ai",
    "pydantic",
    "openai",
    "anthropic",
    "google.genai",
    "genai_prices",
    "httpx2",
    "xllamacpp",
)

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "OPENAI_BASE_URL")
NO_KEYS: dict[str, Any] = dict.fromkeys(KEYS, "")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working folder with models of its own."""
    (tmp_path / "weft.toml").write_text(
        "[models]\n"
        'default = "fast"\n'
        "[models.aliases]\n"
        'fast = "openai:gpt-4o-mini"\n'
        'big = "mine:llama"\n'
        "[models.providers.mine]\n"
        'base_url = "http://127.0.0.1:9/v1"\n'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_models_lists_what_is_usable_and_why_the_rest_is_not(project: Path) -> None:
    ran = weft("models", db="unused", **{**NO_KEYS, "OPENAI_API_KEY": "sk-secret"})

    lines = {line.split()[0]: line for line in ran.out.splitlines() if line.strip()}
    assert ran.code == 0
    assert lines["openai"].split()[1:] == ["provider", "yes", "key", "in", "OPENAI_API_KEY"]
    assert (
        "no      no key for 'anthropic': set the environment variable ANTHROPIC_API_KEY" in lines["anthropic"]
    )
    assert "http://127.0.0.1:9/v1" in lines["mine"]
    assert lines["fast"].split()[1:] == ["alias", "yes", "openai:gpt-4o-mini"]
    assert lines["default:"] == "default: openai:gpt-4o-mini"
    assert "secret" not in ran.out + ran.err


def test_models_list_is_one_document_for_machines(project: Path) -> None:
    ran = weft("models", "list", "--json", db="unused", **NO_KEYS)

    found = {one["name"]: one for one in ran.json["models"]}
    assert ran.json["default"] == {"model": "openai:gpt-4o-mini", "problem": None}
    assert found["fast"]["usable"] is False
    assert "OPENAI_API_KEY" in found["fast"]["why"]
    assert found["big"] == {"kind": "alias", "name": "big", "usable": True, "why": "mine:llama"}
    assert weft("models", "--json", db="unused", **NO_KEYS).json == ran.json


def test_a_default_that_is_none_is_said(project: Path) -> None:
    ran = weft("models", "--json", db="unused", WEFT_MODEL="nobody:x", **NO_KEYS)

    assert ran.json["default"]["model"] == "nobody:x"
    assert "unknown provider 'nobody'" in ran.json["default"]["problem"]


def test_check_knows_the_models_and_tools_of_the_project(project: Path) -> None:
    (project / "good.sexp").write_text(
        '(task :instructions "x" :model "fast" :tools ("system:read_files"))\n'
        '(task :instructions "x" :model "mine:anything")\n'
    )
    (project / "bad.sexp").write_text(
        '(task :instructions "x" :model "fats")\n'
        '(task :instructions "x" :model "mien:llama")\n'
        '(task :instructions "x" :tools ("system:read_file"))\n'
    )

    good = weft("check", "good.sexp", "--json", db="unused")
    bad = weft("check", "bad.sexp", "--json", db="unused")

    assert good.json["problems"] == []
    assert [(one["line"], one["code"]) for one in bad.json["problems"]] == [
        (1, "unknown-model"),
        (2, "unknown-model"),
        (3, "unknown-tool"),
    ]
    assert "did you mean 'fast'?" in bad.json["problems"][0]["message"]
    assert "did you mean 'mine'?" in bad.json["problems"][1]["message"]


@pytest.mark.parametrize(
    "command",
    [("--help",), ("check", "a.sexp"), ("tasks", "list"), ("models",), ("models", "--help")],
    ids=" ".join,
)
def test_commands_that_ask_no_model_do_not_pay_for_one(project: Path, command: tuple[str, ...]) -> None:
    (project / "a.sexp").write_text('(task :instructions "x" :model "openai:gpt-4o-mini")')

    db = str(project / "weft.db")
    weft("flow", "submit", "-", db=db, stdin='[{"name": "a"}]')

    ran = weft(*command, db=db, PYTHONPROFILEIMPORTTIME="1", OPENAI_API_KEY="sk-x")

    imported = {line.rpartition("|")[2].strip() for line in ran.err.splitlines() if "|" in line}
    assert ran.code == 0, ran.err[-500:]
    assert "click" in imported, "the profile of imports is there"
    assert imported.isdisjoint(HEAVY)
