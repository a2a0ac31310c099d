"""Outlines by grammars: what real files define, and texts that are made to break a parser."""

import random
import subprocess
import sys
from collections.abc import Iterator

import pytest

from weft.memory.files.outline import outline_of
from weft.memory.files.treesitter import BY_LANGUAGE, MAX_BYTES, MAX_DEATHS, ParserProcess, grammar_outline

SAMPLES: dict[str, tuple[str, list[tuple[str, str, int]]]] = {
    "javascript": (
        """/* class NotOne { } */
export default class Cart extends Base {
  constructor(items) { super(); }
  async total({ tax = 0 } = {}) { if (tax) { return 1; } }
  static #secret() {}
}
export const LIMITS = { a: 1 };
const round = async (x) => <b>{x}</b>;
function* ids() { const text = `function fake() {}`; }
module.exports.parse = function () {};
const api = { get: () => 1 };
""",
        [
            ("Cart", "class", 2), ("constructor", "method", 3), ("total", "method", 4),
            ("#secret", "method", 5), ("LIMITS", "constant", 7), ("round", "function", 8),
            ("ids", "function", 9), ("parse", "function", 10), ("get", "method", 11),
        ],
    ),
    "typescript": (
        """export interface Order<T> { id: string; pay(amount: number): void }
type Id = string | number;
enum Colour { Red }
abstract class Store { abstract load(id: Id): Order<Id>; private x = <any>1; }
namespace Money { export function round(x: number): number { return x } }
""",
        [
            ("Order", "type", 1), ("pay", "method", 1), ("Id", "type", 2), ("Colour", "type", 3),
            ("Store", "class", 4), ("load", "method", 4), ("Money", "type", 5), ("round", "function", 5),
        ],
    ),
    "go": (
        """package main

const Max = 3
var (
	ErrGone = errors.New("func fake() {}")
)
type Server struct { name string }
type Closer interface {
	Close() error
}
func (s *Server) Close() error { return nil }
func main() { x := func() {}; x() }
""",
        [
            ("Max", "constant", 3), ("ErrGone", "constant", 5), ("Server", "type", 7), ("Closer", "type", 8),
            ("Close", "method", 9), ("Close", "method", 11), ("main", "function", 12),
        ],
    ),
    "rust": (
        """pub const LIMIT: usize = 3;
pub(crate) struct Ring<T> { items: Vec<T> }
impl<T> Ring<T> { pub fn push(&mut self, item: T) {} }
pub trait Walk { fn step(&self); fn all(&self) { } }
macro_rules! ring { () => {} }
mod inner { pub async fn run() { let s = "fn fake() {}"; } }
enum Way { Up }
fn main() {}
""",
        [
            ("LIMIT", "constant", 1), ("Ring", "type", 2), ("push", "method", 3), ("Walk", "type", 4),
            ("step", "method", 4), ("all", "method", 4), ("ring", "macro", 5), ("inner", "type", 6),
            ("run", "function", 6), ("Way", "type", 7), ("main", "function", 8),
        ],
    ),
    "java": (
        """package a;
public final class Bank<T extends Comparable<T>> implements Vault {
    private static final int LIMIT = 3;
    public Bank() { }
    @Override
    public <R> Map<String, List<R>> open(String name) throws IOException { return null; }
    enum Kind { GOLD }
    record Coin(int value) { }
    interface Lock { void close(); }
}
""",
        [
            ("Bank", "class", 2), ("LIMIT", "constant", 3), ("Bank", "method", 4), ("open", "method", 6),
            ("Kind", "class", 7), ("GOLD", "constant", 7), ("Coin", "class", 8), ("Lock", "class", 9),
            ("close", "method", 9),
        ],
    ),
    "c": (
        """#define LIMIT 3
#define MIN(a, b) ((a) < (b) ? (a) : (b))
struct node { struct node *next; };
typedef struct { int x; } point;
enum way { UP };
int open_file(const char *name);
static struct node *
find(struct node *from,
     int (*is_wanted)(int))
{
    return from;
}
""",
        [
            ("LIMIT", "constant", 1), ("MIN", "macro", 2), ("node", "type", 3), ("point", "type", 4),
            ("way", "type", 5), ("open_file", "function", 6), ("find", "function", 8),
        ],
    ),
    "cpp": (
        """namespace bank {
template <typename T> class Vault : public Room {
 public:
  explicit Vault(int size);
  ~Vault() {}
  T& open(const std::string& name) const;
  bool operator==(const Vault& other) const { return true; }
};
using Id = int;
}
void bank::Vault<int>::close() { std::string text(name); }
int main() { return 0; }
""",
        [
            ("bank", "type", 1), ("Vault", "class", 2), ("Vault", "function", 4), ("~Vault", "method", 5),
            ("open", "method", 6), ("operator==", "method", 7), ("Id", "type", 9),
            ("bank::Vault<int>::close", "method", 11), ("main", "function", 12),
        ],
    ),
    "ruby": (
        """module Bank
  LIMIT = 3
  class Vault < Room
    def self.open(name) = new
    def empty?
      <<~TEXT
        def fake
        end
      TEXT
    end
    alias bare? empty?
  end
end
""",
        [
            ("Bank", "class", 1), ("LIMIT", "constant", 2), ("Vault", "class", 3), ("open", "method", 4),
            ("empty?", "method", 5), ("bare?", "method", 11),
        ],
    ),
    "csharp": (
        """namespace Bank;
public sealed class Vault<T> : Room where T : class {
    public Vault() { }
    public string Name { get; set; }
    public async Task<List<T>> OpenAsync(int id) { int Twice(int x) => 2 * x; return null; }
}
public record Coin(int Value);
interface ILock { void Close(); }
""",
        [
            ("Vault", "class", 2), ("Vault", "method", 3), ("Name", "method", 4), ("OpenAsync", "method", 5),
            ("Twice", "function", 5), ("Coin", "class", 7), ("ILock", "class", 8), ("Close", "method", 8),
        ],
    ),
    "php": (
        """<html><?php
namespace Bank;
const LIMIT = 3;
final class Vault extends Room {
    public static function open(?string $name): self { return new self; }
}
trait Counts { }
function total(array $coins) { return "function fake() {}"; }
""",
        [
            ("LIMIT", "constant", 3), ("Vault", "class", 4), ("open", "method", 5), ("Counts", "class", 7),
            ("total", "function", 8),
        ],
    ),
    "shell": (
        """#!/bin/bash
build() { echo 1; }
function clean-up {
  cat <<END
fake() { echo; }
END
}
""",
        [("build", "function", 2), ("clean-up", "function", 3)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("language", BY_LANGUAGE)
def test_the_names_of_a_file_are_found_in_order(language: str) -> None:
    text, expected = SAMPLES[language]

    symbols = outline_of(language, text, text.split("\n")).symbols

    assert [(symbol.name, symbol.kind, symbol.line) for symbol in symbols] == expected


def test_a_page_of_elements_in_typescript_and_a_header_of_cpp_are_read_too() -> None:
    page = "export const Cart = (props: Props) => <div>{props.items}</div>;\nfunction Last() {}\n"
    header = "class Vault {\n public:\n  int open() { return 1; }\n};\n"

    names = [symbol.name for symbol in grammar_outline("typescript", page) or ()]
    in_header = [symbol.name for symbol in grammar_outline("c", header) or ()]

    assert names == ["Cart", "Last"]
    assert in_header == ["Vault", "open"]


@pytest.mark.parametrize("language", BY_LANGUAGE)
def test_no_text_breaks_it(language: str) -> None:
    draw = random.Random(language)
    texts = [
        "",
        "\0",
        "\ufeff\ud800".encode("utf-8", "replace").decode(),
        draw.randbytes(4000).decode("latin-1"),
        "".join(draw.choice("()[]{}<>\"'`\\#$%\n") for _ in range(4000)),
        SAMPLES[language][0][: len(SAMPLES[language][0]) // 2],
    ]

    for text in texts:
        assert isinstance(outline_of(language, text, text.split("\n")).symbols, tuple)


def test_a_text_that_takes_too_long_is_outlined_by_the_shape_of_its_lines() -> None:
    text = "function first() {}\n" + "(" * (MAX_BYTES - 1000)

    symbols = outline_of("javascript", text, text.split("\n")).symbols

    assert [symbol.name for symbol in symbols] == ["first"]
    assert [symbol.name for symbol in grammar_outline("go", "package a\nfunc After() {}") or ()] == ["After"]


def test_a_text_that_is_too_large_is_not_parsed() -> None:
    assert grammar_outline("go", "package a\n" + "// text\n" * (MAX_BYTES // 8)) is None


def test_patterns_take_time_in_proportion_to_the_text() -> None:
    """One that goes back over the whole text at every line takes minutes here, and is ended by the kernel."""
    program = """
import resource
resource.setrlimit(resource.RLIMIT_CPU, (40, 40))
from weft.memory.files.outline import PATTERNS_BY_LANGUAGE, by_patterns
for language in PATTERNS_BY_LANGUAGE:
    for piece in ("(", "a\\n", "\\n ", "a ", "struct a\\n", "public a ", "a(\\n", "::a"):
        by_patterns(language, piece * (60_000 // len(piece)))
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.fixture
def dying() -> Iterator[ParserProcess]:
    parsers = ParserProcess("import os; os.read(0, 1); os.abort()")
    yield parsers
    parsers.close()


def test_a_parser_that_dies_is_survived_and_not_started_forever(dying: ParserProcess) -> None:
    assert [dying.outline("go", b"package a") for _ in range(MAX_DEATHS)] == [None] * MAX_DEATHS
    assert dying.deaths == MAX_DEATHS

    assert dying.outline("go", b"package a") is None
    assert dying.deaths == MAX_DEATHS


def test_a_parser_that_had_ended_for_want_of_work_is_started_again() -> None:
    once = 'import os; os.read(0, 9999); os.write(0, b\'\\0\\0\\0\\x16[["F", "function", 1]]\')'
    parsers = ParserProcess(once)
    try:
        found = [parsers.outline("go", b"x") for _ in range(3)]
    finally:
        parsers.close()

    assert [[symbol.name for symbol in each or ()] for each in found] == [["F"]] * 3
    assert parsers.deaths == 0


def test_a_language_without_grammar_is_outlined_by_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.memory.files.treesitter.has_grammar", lambda language: False)

    symbols = outline_of("go", "package a\nfunc First() {}\n", []).symbols

    assert [(symbol.name, symbol.line) for symbol in symbols] == [("First", 2)]
