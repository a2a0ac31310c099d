"""`weft executors` as a person uses it."""

import json
from pathlib import Path

from tests.command_line import weft


def test_the_list_has_every_executor() -> None:
    ran = weft("executors", db="unused")
    found = weft("executors", "--json", db="unused").json["executors"]

    assert ran.code == 0
    assert "command" in ran.out
    assert {"command", "http", "python", "noop", "sleep", "template"} <= {entry["id"] for entry in found}
    schemas = [entry["input_schema"] for entry in found if entry["id"] != "noop"]
    assert all(schema["type"] == "object" for schema in schemas)


def test_one_executor_is_shown_with_its_inputs_its_result_and_settings(tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_text('[executors.command]\nallow = ["git"]\n')

    def shown(*more: str) -> str:
        ran = weft("executors", "command", *more, db=None, cwd=tmp_path)
        assert ran.code == 0, ran.err
        return ran.out

    text = shown()
    assert 'allow = ["git"]' in text
    assert '"argv"' in text
    assert '"exit_code"' in text.partition("Result (JSON Schema):")[2]
    assert json.loads(shown("--json"))["settings"]["allow"] == ["git"]


def test_an_unknown_executor_is_not_found() -> None:
    ran = weft("executors", "htpp", db="unused")

    assert ran.code == 3
    assert "did you mean 'http'?" in ran.err
