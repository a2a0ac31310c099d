"""`weft doctor` as a person uses it: what is wrong with models, tools and settings is told."""

from pathlib import Path
from typing import Any

from tests.command_line import weft


def checked(folder: Path, **variables: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the exit code, and the checks by name."""
    ran = weft("doctor", "--json", db=str(folder / "weft.db"), cwd=folder, **variables)
    return ran.code, {one["name"]: one for one in ran.json["checks"]}


def test_a_folder_without_settings_has_nothing_wrong(tmp_path: Path) -> None:
    code, found = checked(tmp_path)

    assert code == 0
    assert {"models", "tools", "runtime"} <= found.keys()
    assert "default local:auto" in found["models"]["found"]


def test_what_the_settings_name_and_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_text(
        '[models]\ndefault = "openai:gpt"\n[tools]\nroots = ["nonexist"]\nmcp = "gone.json"\n'
    )

    code, found = checked(tmp_path, OPENAI_API_KEY="")

    assert code == 1
    assert "set the environment variable OPENAI_API_KEY" in found["models"]["found"]
    assert f"[tools] roots: there is no folder {tmp_path / 'nonexist'}" in found["tools"]["found"]
    assert f"[tools] mcp: there is no file {tmp_path / 'gone.json'}" in found["tools"]["found"]


def test_tools_that_are_not_there_are_told_by_their_list_too(tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_text('[tools]\nroots = ["nonexist"]\n')

    ran = weft("tools", db=None, cwd=tmp_path)

    assert ran.code == 0
    assert f"[tools] roots: there is no folder {tmp_path / 'nonexist'}" in ran.err
