"""Outlines by the shape of lines: what they name, and texts over which a pattern could go on for hours."""

# ruff: noqa: E501 - a case is easier to read in one line

import subprocess
import sys

import pytest

from weft.memory.files.outline import MAX_LINE_CHARACTERS, MAX_SHAPE_CHARACTERS, by_patterns, outline_of
from weft.memory.protocol import Symbol

CPU_SECONDS = 60
"""Each of these programs takes a few seconds; with a pattern that goes back over the text it takes hours."""


def ends(program: str) -> bool:
    """Whether the program comes to its end; the kernel ends it when it takes too long."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_CPU, ({CPU_SECONDS}, {CPU_SECONDS}))\n"
    return subprocess.run([sys.executable, "-c", limit + program], check=False).returncode == 0


def names(language: str, text: str) -> list[str]:
    return [symbol.name for symbol in outline_of(language, text, text.split("\n")).symbols]


def test_a_heading_with_very_many_spaces_does_not_hang() -> None:
    assert ends("""
from weft.memory.index.prepare import prepare
for middle in (" ", "#", "# ", "\\t#"):
    for line in ("# a" + middle * 400_000 + "x", "# a" + (middle * 990)[:990] + "x"):
        for path in ("a.md", "a.rst"):
            prepare(path, "\\n".join([line] * (1 + 400_000 // len(line))).encode())
""")


def test_a_python_docstring_of_spaces_does_not_hang() -> None:
    assert ends("""
from weft.memory.index.prepare import prepare
for text in ('"' + " " * 800_000, '"' + "\\\\ " * 400_000,
             '\\"\\"\\"' + "\\n" * 800_000, '\\"\\"\\"a\\"\\"\\"' * 100_000):
    prepare("a.py", text.encode())
""")


def test_no_repeated_text_keeps_a_pattern_busy() -> None:
    assert ends("""
from weft.memory.files.outline import by_patterns
pieces = {
    "toml": ("[",), "ini": ("[",), "css": (".a",), "make": ("a",), "sql": ("create\\n", "create or\\n"),
    "go": ("func (\\n", "func\\n"), "rust": ("pub(\\n", "pub\\n", "async\\n"),
    "java": ("public\\n", "public a\\n", "abstract "), "swift": ("a ", "a\\t\\n"),
    "php": ("abstract\\n", "static\\n"),
    "cpp": ("struct a\\n", "struct a {", "a a(\\n", "a a()x\\n", "a::", "a\\n"),
    "javascript": (" async\\n", "  a()", " a():\\n", "let a=(\\n", "export\\n"),
    "shell": ("function\\n", "a-"),
}
for language, texts in pieces.items():
    for text in texts:
        by_patterns(language, text * (300_000 // len(text)))
""")


def test_headings_are_named_without_the_signs_around_them() -> None:
    text = "# One\n\n##  Two ##  \n\nThree\n=====\n\n```\n# no\n```\n\n#\n### Four#\n"

    assert names("markdown", text) == ["One", "Two", "Three", "Four"]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("go", "func (s *Server)\n  Close() {\nfunc main() {\ntype\tServer struct\n", ["Close", "main", "Server"]),
        ("rust", "pub(in crate::a) async unsafe fn run() {\n  pub struct Ring;\n", ["run", "Ring"]),
        ("c", "static struct node *\nfind(int a,\n  int b)\n{\nint main() {\nstruct x {\n", ["find", "main", "x"]),
        ("cpp", "Vault::~Vault()\n{\nvoid bank::Vault::close() const {\n", ["bank::Vault::close"]),
        ("c", "extern void f (int a,\n  int b)\n  __THROW;\npublic:\n  Item(int a)\n  {}\n", ["f", "Item"]),
        ("java", "  public static final Map<String> open(int a) {\npublic abstract class A\n", ["open", "A"]),
        ("typescript", "export const f = async (a) => 1\nclass A\n  private async g(a): T {\n", ["f", "A", "g"]),
        ("sql", "CREATE TABLE IF NOT EXISTS\n  orders (\ncreate or replace view v\n", ["orders", "v"]),
        ("toml", "[a]\n[[b.c]]\nd = [1]\n", ["a", "b.c"]),
        ("css", ".a:hover, #b {\n#c-d {\n", [".a", "#c-d"]),
        ("make", "all: x\nA := 1\nb.o : c\n", ["all", "b.o"]),
        ("swift", "  @objc public func run() {\n  public static func go() {\n", ["go"]),
    ],
)  # fmt: skip
def test_definitions_are_known_by_the_shape_of_lines(language: str, text: str, expected: list[str]) -> None:
    assert [symbol.name for symbol in by_patterns(language, text)] == expected


def test_a_line_that_is_too_long_is_passed_over_and_the_others_keep_their_numbers() -> None:
    text = "[" + "a" * MAX_LINE_CHARACTERS + "]\n[b]\n"

    assert by_patterns("toml", text) == [Symbol("b", "heading", 2)]
    assert names("markdown", "# " + "a" * MAX_LINE_CHARACTERS + "\n# b\n") == ["b"]


def test_no_more_of_a_file_is_looked_at_than_there_is_room_for() -> None:
    text = "[a]\n" + "x = 1\n" * (MAX_SHAPE_CHARACTERS // 6) + "[b]\n"

    assert [symbol.name for symbol in by_patterns("toml", text)] == ["a"]
