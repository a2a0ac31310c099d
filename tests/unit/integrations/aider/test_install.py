"""Where aider is looked for."""

import os
import sys
from pathlib import Path

import pytest

from weft.config.sections import AiderSettings
from weft.executors.protocol import ExecutionFailed
from weft.integrations.aider.install import MARK, AiderProgram, find_aider, install_aider, own_environment

ANY = AiderSettings()


def script(folder: Path, text: str, name: str = "aider") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    "text",
    [
        f"#!{sys.executable}\nimport aider\n",
        f"#! {sys.executable} -E\n",
        f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n",
    ],
)
def test_the_one_on_the_path_is_found_with_its_python(tmp_path: Path, text: str) -> None:
    place = script(tmp_path / "bin", text)

    assert find_aider(ANY, {"PATH": str(place.parent)}) == AiderProgram(str(place), sys.executable)


def test_the_setting_wins(tmp_path: Path) -> None:
    script(tmp_path / "bin", f"#!{sys.executable}\n")
    own = script(tmp_path / "own", f"#!{sys.executable}\n", "my-aider")

    found = find_aider(AiderSettings(program=str(own)), {"PATH": str(tmp_path / "bin")})

    assert found == AiderProgram(str(own), sys.executable)


@pytest.mark.parametrize("text", ["#!/bin/sh\nexec other\n", "\x7fELF", "", "#!/nowhere/python3\n"])
def test_one_whose_python_is_not_known_cannot_be_used(tmp_path: Path, text: str) -> None:
    place = script(tmp_path / "bin", text)

    with pytest.raises(ExecutionFailed, match="its interpreter is unknown"):
        find_aider(ANY, {"PATH": str(place.parent)})


def test_a_program_of_the_settings_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ExecutionFailed, match=r"\[executors.aider\] program: executable 'none' not found"):
        find_aider(AiderSettings(program="none"), {"PATH": str(tmp_path)})


def test_an_environment_counts_when_it_is_whole(tmp_path: Path) -> None:
    environment = {"PATH": "/nowhere", "WEFT_CACHE": str(tmp_path)}
    folder = own_environment(environment)
    folder.mkdir(parents=True)
    assert find_aider(ANY, environment) is None  # an installation that was killed

    (folder / MARK).touch()

    assert find_aider(ANY, environment) == AiderProgram(str(folder), str(folder / "bin" / "python"))


async def test_installing_runs_nothing_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger, cache = tmp_path / "stranger", tmp_path / "cache"
    stranger.mkdir()
    for module in ("venv", "pip", "subprocess"):
        (stranger / f"{module}.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')")
    monkeypatch.chdir(stranger)
    environment = {**os.environ, "WEFT_CACHE": str(cache), "PIP_INDEX_URL": (tmp_path / "none").as_uri()}

    with pytest.raises(ExecutionFailed, match="aider could not be installed"):
        await install_aider(environment, lambda _: None)

    assert (own_environment(environment) / "bin" / "python").exists()
    assert not (tmp_path / "sprung").exists()
