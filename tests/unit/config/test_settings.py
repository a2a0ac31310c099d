"""`weft.toml`."""

from pathlib import Path

import pytest

from weft.config.sections import CommandSettings, ExecutorSettings, HttpSettings
from weft.config.settings import Settings, load_settings, read_project
from weft.config.toml import InvalidSetting

EVERYTHING = """
[executors.command]
allow = ["git", "/usr/bin/make"]
allow_shell = true
grace_seconds = 3

[executors.http]
allow_private = true
allow_hosts = ["intranet", "localhost:8080"]

[executors.python]
modules = ["my_project.jobs"]
path = ["src"]
"""


def loaded(folder: Path) -> ExecutorSettings:
    return load_settings(environment={}, folder=folder).executors


def test_without_the_file_the_defaults_are_in_force(tmp_path: Path) -> None:
    assert loaded(tmp_path) == Settings(db="x").executors == ExecutorSettings()


def test_every_setting_is_read(tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_text(EVERYTHING)

    found = loaded(tmp_path)

    assert found.command == CommandSettings(
        allow=("git", "/usr/bin/make"), allow_shell=True, grace_seconds=3.0
    )
    assert found.http == HttpSettings(allow_private=True, allow_hosts=("intranet", "localhost:8080"))
    assert found.python.modules == ("my_project.jobs",)
    assert found.python.path == (str(tmp_path / "src"),)


def test_the_nearest_file_upwards_counts(tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_text("[executors.http]\nallow_private = true\n")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    assert loaded(below).http.allow_private
    assert loaded(below).python.path == (str(tmp_path),)

    (below / "weft.toml").write_text("")

    assert not loaded(below).http.allow_private


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[executor.http]", "unknown table 'executor'; did you mean 'executors'?"),
        ("[executors.htp]", "[executors]: unknown table 'htp'; did you mean 'http'?"),
        ("[executors.http]\nalow_hosts = []", "unknown setting 'alow_hosts'; did you mean 'allow_hosts'?"),
        ("[executors.http]\nzzz = 1", "unknown setting 'zzz' (known: allow_private, allow_hosts)"),
        (
            "[executors.http]\nallow_private = 1",
            "[executors.http]: allow_private must be true or false; this is 1",
        ),
        (
            "[executors.command]\nallow = 'git'",
            "[executors.command]: allow must be a list, each item a text",
        ),
        (
            "[executors.command]\nallow = ['bin/git']",
            "'bin/git' must be the name of an executable or an absolute path",
        ),
        ("[executors.command]\nenvironment = ['A=b']", "'A=b' is not the name of a variable"),
        ("[executors.command]\ngrace_seconds = -1", "grace_seconds must be a number, at least 0; this is -1"),
        ("[executors.python]\nmodules = ['a/b']", "'a/b' is not the name of a module"),
        ("executors = 3", "executors must be a table"),
        ("[executors]\nhttp = 3", "[executors.http] must be a table"),
        ("[executors", "not TOML"),
        ("\xff", "not TOML"),
    ],
)
def test_a_mistake_is_refused_by_name(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "weft.toml").write_bytes(text.encode("latin-1"))

    with pytest.raises(InvalidSetting) as caught:
        loaded(tmp_path)

    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("settings", "is_allowed"),
    [
        (CommandSettings(), True),
        (CommandSettings(allow=("git",)), False),
        (CommandSettings(allow=("git",), allow_shell=True), True),
        (CommandSettings(allow_shell=False), False),
    ],
)
def test_the_shell_is_off_while_there_is_a_list_of_programs(
    settings: CommandSettings, is_allowed: bool
) -> None:
    assert settings.is_shell_allowed is is_allowed


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[memory]\nroots = ["\\u0000"]\n', r"'\\x00' is not a path: it contains a NUL character"),
        ("[tools]\nroots = []\n", r"\[tools\] roots: name at least one folder"),
        ('[tools]\nroots = ["a\\u0000b"]\n', r"'a\\x00b' is not a path: it contains a NUL character"),
        ("[memory]\nmax_file_bytes = 99999999999999999999\n", r"\[memory\].*max_file_bytes"),
        ("[memory]\nmax_file_bytes = 1000000001\n", r"\[memory\].*max_file_bytes.*at most 1e\+09"),
    ],
)
def test_what_no_index_could_use_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "weft.toml").write_text(text)

    with pytest.raises(InvalidSetting, match=f"weft.toml: .*{problem}"):
        read_project(tmp_path)
