"""What is asked: the subjects of commits. The answers: the source files that each of them changed."""

import argparse
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.measure import LeftOut

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "retrieval"
MAX_ANSWERS = 8
"""A commit that changes more files is a sweep; no question has them as its answer."""

_SOURCE = re.compile(
    r"\.(py|pyi|js|mjs|jsx|ts|tsx|c|cc|cpp|h|hpp|go|rs|rb|java|kt|scala|swift|php|pl|lua|ex|sh|bash|zsh|sql|cs)$"
)
_TEST = re.compile(
    r"(^|/)(tests?|testing|specs?|docs?|bench|benchmarks?|examples?)/|(^|/)test_|[._]test\.|conftest\.py$"
)


class Question(NamedTuple):
    """The subject of a commit, and the files that are to be found."""

    text: str
    answers: frozenset[str]


class Tree(NamedTuple):
    """Files as they were, and what is asked of them."""

    name: str
    folder: Path
    questions: Sequence[Question]


def add_tree_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which packages are asked about."""
    cache = Path.home() / ".cache" / "weft-bench-retrieval"
    parser.add_argument("--data", type=Path, default=DATA, help="JSON files with packages and questions")
    parser.add_argument("--cache", type=Path, default=cache, help="where the packages are unpacked")
    parser.add_argument("--fetch", action="store_true", help="download packages that are not there")


def wheel_trees(options: argparse.Namespace) -> Iterator[Tree | LeftOut]:
    """Yield the packages of the data folder: each JSON file names a package, its version and its questions.

    The questions of each are as many as the size says, evenly chosen.
    """
    for path in sorted(options.data.glob("*.json")):
        described = json.loads(path.read_text("utf-8"))
        package, version = described["package"], described["version"]
        folder = options.cache / f"{package}-{version}"
        if not folder.exists() and not options.fetch:
            yield LeftOut(
                package, f"{version} is not unpacked here; python -m bench.retrieval --fetch does it"
            )
            continue
        if not folder.exists():
            _fetch(package, version, described["root"], options.cache)
        questions = [Question(each["query"], frozenset(each["files"])) for each in described["queries"]]
        yield Tree(package, folder, questions[:: max(1, len(questions) // options.size)])


def _fetch(package: str, version: str, root: str, cache: Path) -> None:
    """Download a package and unpack its own files: what a wheel says about itself is not part of it."""
    wheels = cache / "wheels"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, "--dest", str(wheels), f"{package}=={version}"], check=True)
    [wheel] = wheels.glob(f"{package.replace('-', '_')}-{version}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(root)]
        archive.extractall(cache / f"{package}-{version}", names)


def repository_trees(repository: Path, folder: Path, limit: int) -> Iterator[Tree]:
    """Yield the tree before each of some commits, in order of time, all in one folder."""
    chosen = sorted(_commits(repository, limit), key=lambda commit: commit[0])
    for _, parent, subject, answers in chosen:
        _check_out(repository, parent, folder)
        yield Tree(repository.name, folder, [Question(subject, answers)])


def _commits(repository: Path, limit: int) -> list[tuple[int, str, str, frozenset[str]]]:
    """Time, parent, subject and answers of commits, chosen by their ids.

    That is by chance, and a later commit changes little of the choice.
    """
    log = sorted(_git(repository, "log", "--no-merges", "--format=%H%x00%P%x00%ct%x00%s").splitlines())
    found: list[tuple[int, str, str, frozenset[str]]] = []
    for line in log:
        commit, parent, time, subject = line.split("\0")
        if parent and len(found) < limit:
            names = _git(repository, "diff", "--name-only", "--diff-filter=MD", "-z", parent, commit).split(
                "\0"
            )
            answers = frozenset(name for name in names if _SOURCE.search(name) and not _TEST.search(name))
            if 0 < len(answers) <= MAX_ANSWERS:
                found.append((int(time), parent, subject, answers))
    return found


def _check_out(repository: Path, commit: str, folder: Path) -> None:
    """Bring the folder to the commit's tree; files that stay the same are not touched."""
    index = folder.with_suffix(".git-index")
    where = [
        f"--git-dir={_git(repository, 'rev-parse', '--absolute-git-dir').strip()}",
        f"--work-tree={folder}",
    ]
    environment = {"GIT_INDEX_FILE": str(index), "PATH": "/usr/bin:/bin:/usr/local/bin"}
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["git", *where, "read-tree", "--reset", "-u", commit], check=True, env=environment, cwd=folder
    )


def _git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(repository), *arguments], check=True, capture_output=True)
    return done.stdout.decode("utf-8", "replace")
