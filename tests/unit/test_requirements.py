"""What weft is installed with: every package by its hash."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "requirements").glob("*.txt"))
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in found}


def locked(file: Path) -> dict[str, list[str]]:
    """Return the words of each requirement, by its name."""
    text = file.read_text().replace("\\\n", " ")
    words = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {canonicalize_name(one[0].partition("==")[0]): one for one in words}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_requirement_has_the_tested_version_and_hashes(file: Path) -> None:
    found, known = locked(file), pins()

    for name, words in found.items():
        assert words[0].partition("==")[2] == known[name], name
        hashes = [word for word in words if word.startswith("--hash")]
        assert hashes, name
        assert all(map(_HASH.fullmatch, hashes)), name
    assert "://" not in file.read_text()
    assert "hatchling" in found  # weft itself is built with what is here, and nothing is fetched for it


@pytest.mark.parametrize(
    ("name", "extras"), [("base", []), ("local", ["local"]), ("check", ["check", "test"])]
)
def test_what_weft_needs_is_there(name: str, extras: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    names = {canonicalize_name(Requirement(text).name) for text in wanted} - {"weft"}

    assert names <= locked(ROOT / "requirements" / f"{name}.txt").keys()


def test_weft_without_extras_needs_neither_a_runtime_of_models_nor_packages_for_tests() -> None:
    base, local = (locked(ROOT / "requirements" / f"{name}.txt") for name in ("base", "local"))

    assert local.keys() - base.keys() == {"xllamacpp"}
    assert all(local[name] == words for name, words in base.items())
