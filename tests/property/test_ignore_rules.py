"""What the walk leaves out is what git ignores, on trees and rules that nobody thought of."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from weft.memory.files.walk import Walk

SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
NAMES = [
    "a",
    "b",
    "ab",
    "A",
    "a.py",
    "b.py",
    "x.txt",
    "[a]",
    "a b",
    "a ",
    "!a",
    "#a",
    "é",
    "**",
    "a\\b",
    "build",
]
FOLDERS = ["a", "b", "ab", "A", "build", "x.txt", "é", "a b"]

names = st.sampled_from(NAMES)
files = st.builds(
    lambda folders, name: "/".join([*folders, name]),
    st.lists(st.sampled_from(FOLDERS), max_size=3),
    names,
)
pieces = st.sampled_from(
    ["a", "b", "ab", "A", "é", ".py", ".txt", "x", "build", "*", "**", "?", "/", "/", "**/", "/**", "\\",
     "[A]", "[A-B]", "[[:upper:]]", "\\A", "É",
     "[ab]", "[!a]", "[^b]", "[a-b]", "[]a]", "[[:alpha:]]", "[[:foo:]]", "[", "]", "!", "#", " ", "\\ ", "-",
     "\t", "[b-a]", "[a-", "[\\]]", "[[:alpha]", "***", "\\*", "\\/", "[/]", "[!/]"]
)  # fmt: skip
lines = st.builds(
    lambda negation, anchor, parts, end: negation + anchor + "".join(parts) + end,
    st.sampled_from(["", "", "", "!", "!", "#", "\\!", "\\#"]),
    st.sampled_from(["", "", "/"]),
    st.lists(pieces, min_size=1, max_size=4),
    st.sampled_from(["", "", "/", " ", "\\ ", "\r", "/ ", "//"]),
)
rules = st.lists(lines, min_size=1, max_size=5).map("\n".join)
trees = st.tuples(
    st.lists(files, min_size=1, max_size=12, unique=True),
    st.dictionaries(st.sampled_from(["", "a", "b", "a/b", "build", "A"]), rules, min_size=1, max_size=3),
    st.one_of(st.none(), rules),
    st.lists(st.integers(0, 11), max_size=2),
    st.booleans(),
)


def make(root: Path, paths: list[str]) -> None:
    for path in paths:
        file = root / path
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("text\n")
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue


def git(root: Path, *arguments: str, given: bytes = b"") -> bytes:
    environment = {"PATH": os.environ["PATH"], "HOME": str(root / "nowhere"), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-C", str(root), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, env=environment, check=False)
    assert done.returncode in (0, 1), done.stderr  # 1: nothing is ignored
    return done.stdout


def all_files(root: Path) -> list[str]:
    found = [file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file()]
    return sorted(path for path in found if path.split("/")[0] != ".git")


@pytest.fixture(autouse=True)
def no_home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    empty = tmp_path_factory.mktemp("home")
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(empty))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def make_repository(root: Path, *, ignore_case: bool) -> None:
    """Create what `git init` creates, without its samples and without a process."""
    for folder in ("objects", "refs", "info"):
        (root / ".git" / folder).mkdir(parents=True)
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (root / ".git/config").write_text(
        f"[core]\n\trepositoryformatversion = 0\n\tignorecase = {str(ignore_case).lower()}\n"
    )


@settings(max_examples=examples(200), deadline=None, suppress_health_check=SLOW)
@given(trees)
@example((["a", "ab/b"], {"": "a**/b"}, None, [], False))
@example((["build/a", "build/b"], {"": "build/*\n!build/a"}, None, [], False))
@example((["a/b.py"], {"": "a/", "a": "!b.py"}, None, [0], False))
@example((["a", "bab"], {"": "**/[ab]***"}, None, [], False))
@example((["a", "A", "b"], {"": "[!a]"}, None, [], True))
@example((["a", "A"], {"": "[A]"}, None, [], True))
@example((["a", "A"], {"": "[A-B]"}, None, [], True))
@example((["a", "A"], {"": "\\A"}, None, [], True))
@example((["é", "É"], {"": "*É***?*"}, None, [], True))
def test_the_walk_finds_what_git_does_not_ignore(
    tmp_path_factory: pytest.TempPathFactory,
    tree: tuple[list[str], dict[str, str], str | None, list[int], bool],
) -> None:
    paths, ignore_files, exclude, tracked, ignore_case = tree
    root = tmp_path_factory.mktemp("tree")
    make(root, paths)
    make_repository(root, ignore_case=ignore_case)
    if exclude is not None:
        (root / ".git/info/exclude").write_text(exclude, newline="")
    for folder, text in ignore_files.items():
        if (root / folder).is_dir():
            (root / folder / ".gitignore").write_text(text, newline="")
    present = all_files(root)
    if tracked:
        git(root, "add", "-f", "--", *(f":(literal){present[number % len(present)]}" for number in tracked))

    ignored = git(root, "check-ignore", "--stdin", "-z", given="\0".join(present).encode())

    expected = sorted(set(present) - set(ignored.decode().split("\0")))
    assert sorted({found.path for found in Walk(root).all()}) == expected
    one_by_one = Walk(root)
    assert [path for path in present if [*one_by_one.below(path)]] == expected
