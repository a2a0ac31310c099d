"""Classifies a file by its path and first line: its language and its purpose."""

import re
from collections.abc import Set
from functools import lru_cache

BY_SUFFIX = {
    ".py": "python", ".pyi": "python", ".pyw": "python", ".pyx": "cython",
    ".md": "markdown", ".markdown": "markdown", ".rst": "rest", ".txt": "text",
    ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".jsx": "javascript",
    ".ts": "typescript", ".mts": "typescript", ".cts": "typescript", ".tsx": "typescript",
    ".go": "go", ".rs": "rust", ".java": "java",
    ".kt": "kotlin", ".kts": "kotlin", ".scala": "scala",
    ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp",
    ".hpp": "cpp", ".hh": "cpp", ".hxx": "cpp",
    ".cs": "csharp", ".swift": "swift", ".rb": "ruby", ".php": "php", ".pl": "perl", ".pm": "perl",
    ".lua": "lua", ".sh": "shell", ".bash": "shell", ".zsh": "shell", ".fish": "shell",
    ".sql": "sql", ".r": "r", ".jl": "julia", ".ex": "elixir", ".exs": "elixir", ".erl": "erlang",
    ".hs": "haskell", ".ml": "ocaml", ".clj": "clojure", ".el": "lisp", ".lisp": "lisp", ".scm": "scheme",
    ".html": "html", ".htm": "html", ".css": "css", ".scss": "css", ".xml": "xml",
    ".xsd": "xml", ".svg": "xml",
    ".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".ini": "ini", ".cfg": "ini",
    ".proto": "protobuf", ".graphql": "graphql", ".tf": "terraform", ".vue": "vue", ".dart": "dart",
}  # fmt: skip

BY_NAME = {
    "makefile": "make", "dockerfile": "dockerfile", "cmakelists.txt": "cmake", "rakefile": "ruby",
    "gemfile": "ruby", "readme": "text", "license": "text", "changelog": "text",
}  # fmt: skip

_SHEBANG = re.compile(r"#!\s*\S*/(?:env\s+(?:-\S+\s+)*)?([A-Za-z]+)")
_INTERPRETERS = {
    "python": "python", "sh": "shell", "bash": "shell", "zsh": "shell", "node": "javascript",
    "ruby": "ruby", "perl": "perl", "php": "php", "lua": "lua", "make": "make",
}  # fmt: skip


def language_of(path: str, text: str) -> str | None:
    """Return the language of a file, or None if it is unknown."""
    name = path.rpartition("/")[2].lower()
    stem, dot, suffix = name.rpartition(".")
    if stem and dot and f".{suffix}" in BY_SUFFIX and name not in BY_NAME:
        return BY_SUFFIX[f".{suffix}"]
    if name in BY_NAME:
        return BY_NAME[name]
    if text.startswith("#!"):
        found = _SHEBANG.match(text[:200])
        return _INTERPRETERS.get(found[1].lower()) if found else None
    return None


_TEST = re.compile(
    r"(^|/)(tests?|testing|specs?|fixtures|benchmarks?|bench|examples?)/|(^|/)test_|[._]test\.[^/]*$|(^|/)conftest\.py$"
)
"""Folders of tests, benchmarks and examples, and prefixes and suffixes of the names of tests."""

_TEXT = re.compile(
    r"\.(md|rst|txt|adoc|json|jsonl|lock|toml|cfg|ini|ya?ml|csv|po)$|(^|/)docs?/"
    r"|(^|/)(changes|change-?log|licen[cs]e(-[^/.]+)?|copying|notice|authors|history|news|readme)$",
    re.IGNORECASE,
)
"""Suffixes of texts, documentation folders, and texts without a suffix: `history.py` is code."""

_MARKUP = re.compile(r"\.(html?|css|scss|svg|xml|xsd|min\.js)$", re.IGNORECASE)

_KINDS = (
    (_TEST, 0.25, frozenset(("test", "fixtur", "benchmark", "exampl", "spec", "conftest"))),
    (_TEXT, 0.25, frozenset(("doc", "document", "readm", "changelog", "licens", "config", "configur"))),
    (_MARKUP, 0.25, frozenset(("html", "css", "templat", "svg", "xml", "page", "style", "stylesheet"))),
)
"""For each kind of file its pattern, its factor, and the stems of words that ask for it."""


def kind_factor(path: str, stems: Set[str]) -> float:
    """Return the factor of a file's score: below 1 for a kind of file that the query does not ask for."""
    kind = _kind_of(path)
    if kind is None:
        return 1.0
    factor, words = kind
    return 1.0 if words & stems or path.rsplit(".", 1)[-1].lower() in stems else factor


@lru_cache(maxsize=20_000)
def _kind_of(path: str) -> tuple[float, frozenset[str]] | None:
    # Cached, because all queries find the same files.
    return next(((factor, words) for pattern, factor, words in _KINDS if pattern.search(path)), None)
