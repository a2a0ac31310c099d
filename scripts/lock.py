"""Writes `requirements/*.txt`: the versions of `constraints.txt` with the hashes of their wheels.

`python -m scripts.lock`, after a change of `constraints.txt` or of the dependencies. pip is asked for every
Python and platform that weft is installed on; it uses the index that it is set to, and fetches no more than
it needs to know the hashes. A package without a wheel for a platform cannot be installed there by its hash.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]

WANTED = {"base": "", "local": "local", "check": "check"}
"""The files, and the extra of weft that each is for; `base` is for weft without extras."""

PYTHONS = ("3.11", "3.12", "3.13")

PLATFORMS = {
    "linux": [f"{tag}_x86_64" for tag in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")],
    "linux on ARM": [f"{tag}_aarch64" for tag in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")],
    "macOS": [f"macosx_{version}_arm64" for version in ("14_0", "13_0", "12_0", "11_0")],
}

_MISSING = re.compile(r"No matching distribution found for ([A-Za-z0-9._-]+)==")

_HEAD = """\
# Made by scripts/lock.py from constraints.txt: install with pip's --require-hashes, then weft itself with
# --no-deps --no-build-isolation.
"""

Reports = list[dict[str, Any]]


def main() -> None:
    """Write the files."""
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda target: _asked(*target), [(p, tags) for p in PYTHONS for tags in PLATFORMS])
        installs = [install for report in found for install in report]
    hashes: dict[str, set[str]] = {}
    metadata: dict[str, dict[str, Any]] = {}
    for install in installs:
        name = canonicalize_name(install["metadata"]["name"])
        hashes.setdefault(name, set()).add(install["download_info"]["archive_info"]["hashes"]["sha256"])
        metadata[name] = install["metadata"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for file, extra in WANTED.items():
        names = closure(_weft(project), extra, metadata) | closure(_builder(project), "", metadata)
        lines = [_line(name, metadata[name]["version"], hashes[name], project) for name in sorted(names)]
        (ROOT / "requirements").mkdir(exist_ok=True)
        (ROOT / "requirements" / f"{file}.txt").write_text(_HEAD + "".join(lines))


def pins() -> list[str]:
    """Return the lines of `constraints.txt` that pin a version."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _asked(python: str, platform: str) -> Reports:
    """Return what pip would install of the pins on a platform, of those that have a wheel for it."""
    wanted = pins()
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps", "--ignore-installed"),
        *("--only-binary=:all:", "--implementation", "cp", "--python-version", python),
        *(word for tag in [*PLATFORMS[platform], "any"] for word in ("--platform", tag)),
    ]
    while True:
        with tempfile.TemporaryDirectory() as folder:
            report, listed = Path(folder, "report.json"), Path(folder, "pins.txt")
            listed.write_text("\n".join(wanted))
            more = ["--target", folder, "--report", str(report), "--requirement", str(listed)]
            done = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                installs: Reports = json.loads(report.read_text())["install"]
                return installs
        missing = _MISSING.search(done.stderr)
        if missing is None:
            raise SystemExit(done.stderr)
        print(f"{platform}, Python {python}: no wheel of {missing[1]}", file=sys.stderr)
        wanted = [pin for pin in wanted if not pin.startswith(f"{missing[1]}==")]


def _weft(project: Mapping[str, Any]) -> dict[str, Any]:
    """Return weft's own metadata, as an index would give it."""
    extras: dict[str, list[str]] = project["project"]["optional-dependencies"]
    required = list(project["project"]["dependencies"])
    for extra, requirements in extras.items():
        for text in requirements:
            name, _, marker = text.partition(";")
            condition = f'extra == "{extra}"' + (f" and ({marker})" if marker else "")
            required.append(f"{name} ; {condition}")
    return {"name": "weft", "requires_dist": required}


def _builder(project: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": "weft", "requires_dist": project["build-system"]["requires"]}


def closure(package: Mapping[str, Any], extra: str, known: Mapping[str, dict[str, Any]]) -> set[str]:
    """Return the names of everything that a package needs with an extra, on any of the platforms."""
    everything = {**known, canonicalize_name(package["name"]): dict(package)}
    seen: set[tuple[str, str]] = set()
    stack = [(canonicalize_name(package["name"]), extra)]
    while stack:
        name, wanted = stack.pop()
        if (name, wanted) in seen or name not in everything:
            continue
        seen.add((name, wanted))
        for requirement in _required(everything[name], wanted):
            stack += [(canonicalize_name(requirement.name), more) for more in ("", *requirement.extras)]
    return {name for name, _ in seen} - {"weft"}


def _required(metadata: Mapping[str, Any], extra: str) -> Iterator[Requirement]:
    for text in metadata.get("requires_dist", ()):
        requirement = Requirement(text)
        environments = (
            {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": system}
            | {"platform_system": system.capitalize(), "os_name": "posix", "extra": extra}
            for python in PYTHONS
            for system in ("linux", "darwin")
        )
        marker = requirement.marker
        if marker is None or any(marker.evaluate(one) for one in environments):
            yield requirement


def _line(name: str, version: str, hashes: set[str], project: Mapping[str, Any]) -> str:
    marker = next(
        (
            f" ; {requirement.marker}"
            for group in (project["project"]["dependencies"], *_extras(project))
            for requirement in map(Requirement, group)
            if canonicalize_name(requirement.name) == name and requirement.marker is not None
        ),
        "",
    )
    listed = "".join(f" \\\n    --hash=sha256:{one}" for one in sorted(hashes))
    return f"{name}=={version}{marker}{listed}\n"


def _extras(project: Mapping[str, Any]) -> list[list[str]]:
    return list(project["project"]["optional-dependencies"].values())


if __name__ == "__main__":
    main()
