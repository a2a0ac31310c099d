"""`--help`, `--version`, mistakes in the command's own words, `schema` and `doctor`."""

from pathlib import Path

import click
import jsonschema_rs
import pytest

from tests.batches import batched
from tests.command_line import fresh_weft, weft
from weft.cli.main import weft as root_command


def commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            found += commands(child, (*path, name))
    return found


ALL_COMMANDS = commands(root_command)


@batched("path", ALL_COMMANDS, ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    # What a group or a command of the top imports must suffice by itself; a fork has imported all of weft.
    run = fresh_weft if len(path) < 2 else weft
    ran = run(*path, "--help", db="unused")

    assert ran.code == 0
    assert ran.out.startswith("Usage: weft")
    assert ran.err == ""


@batched("path", [path for path in ALL_COMMANDS if path], ids=" ".join)
def test_every_command_is_documented(path: tuple[str, ...]) -> None:
    documentation = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()

    assert f"weft {' '.join(path)}" in documentation


def test_help_is_quick_because_it_imports_little() -> None:
    ran = fresh_weft("--help", db="unused", PYTHONPROFILEIMPORTTIME="1")

    assert " click\n" in ran.err, "the profile of imports is there"
    for heavy in ("asyncpg", "msgspec", "jsonschema_rs", "rich", "sqlite3", "zoneinfo", "weft.app.app"):
        assert f"| {heavy}\n" not in ran.err
        assert f" {heavy}\n" not in ran.err


def test_version_is_the_packages() -> None:
    from weft import __version__

    assert weft("--version", db="unused").out == f"weft, version {__version__}\n"


def test_a_mistyped_command_gets_a_suggestion() -> None:
    ran = weft("task", db="unused")

    assert ran.code == 2
    assert "Did you mean 'tasks'?" in ran.err


def test_a_wrong_option_is_json_when_json_was_asked_for() -> None:
    ran = weft("tasks", "list", "--nonsense", "--json", db="unused")

    assert ran.code == 2
    assert ran.json["error"]["code"] == "usage"


@pytest.mark.parametrize("what", ["task", "flow"])
def test_schema_prints_a_valid_schema(what: str) -> None:
    ran = weft("schema", what, db="unused")

    assert ran.json["$schema"] == "http://json-schema.org/draft-07/schema#"
    jsonschema_rs.meta.validate(ran.json)


def test_doctor_looks_at_the_store(store_url: str) -> None:
    weft("flow", "submit", "-", db=store_url, stdin='[{"name": "a"}]')
    ran = weft("doctor", db=store_url)
    checks = weft("doctor", "--json", db=store_url).json["checks"]

    assert ran.code == 0, ran.out
    assert "1 task, 1 event" in ran.out
    assert {check["name"] for check in checks} == {
        *("weft", "sqlite", "time zones", "postgresql", "store"),
        *("models", "tools", "runtime", "aider"),
    }
    assert all(check["ok"] for check in checks)


def test_doctor_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "weft.db").write_text("x" * 5000)

    ran = weft("doctor", db=str(tmp_path / "weft.db"))

    assert ran.code == 1
    assert "FAIL  store" in ran.out
