"""What language a file is in: by its name, else by its first line."""

import re

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
    """The language of a file; None when nothing says it."""
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
