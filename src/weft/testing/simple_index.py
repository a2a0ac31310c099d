"""An in-memory index that compares words: small, exact and slow; for tests and few files."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from weft.memory.context.assembly import words_of
from weft.memory.memory import Memory
from weft.memory.protocol import Chunk, FileFacts, IndexProgress, IndexReport, Match, Query, Symbol

CHUNK_LINES = 30
MAX_FILE_BYTES = 1024 * 1024
SKIPPED = frozenset({".git", ".weft", ".venv", "__pycache__", "node_modules"})
"""Names of folders that are not indexed."""

_SYMBOL = re.compile(r"^\s*(?:async\s+)?(def|class|function|func|fn)\s+(\w+)|^(#{1,6})\s+(.+)$", re.MULTILINE)
_KINDS = {"class": "class"}


class SimpleIndex:
    """Index and matcher in one. It applies no ignore rules, and `close` clears it."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}
        self._facts: dict[tuple[str, str], FileFacts] = {}

    def update(
        self, roots: Sequence[Path], on_progress: Callable[[IndexProgress], None] | None = None
    ) -> IndexReport:
        before = dict(self._texts)
        resolved = [Path(root).resolve() for root in roots]
        seen = {(str(root), path): file for root in resolved for path, file in _files(root)}
        for key in [key for key in self._texts if key not in seen and Path(key[0]) in resolved]:
            self._forget(key)
        skipped: Counter[str] = Counter()
        changed = 0
        for number, (key, file) in enumerate(seen.items(), start=1):
            self._read(key, file, skipped)
            if on_progress is not None:
                changed += self._texts.get(key) != before.get(key)
                on_progress(IndexProgress(number, changed, 0, len(seen)))
        both = self._texts.keys() & before.keys()
        return IndexReport(
            files=len(self._texts),
            added=len(self._texts.keys() - before.keys()),
            changed=sum(self._texts[key] != before[key] for key in both),
            removed=len(before.keys() - self._texts.keys()),
            skipped=dict(skipped),
            text_bytes=sum(facts.size for facts in self._facts.values()),
        )

    def update_paths(self, root: Path, paths: Sequence[str]) -> IndexReport:
        """Read all files of the root again, whatever `paths` are."""
        return self.update([root])

    def facts(self, root: str, path: str) -> FileFacts | None:
        return self._facts.get((root, path))

    def status(self) -> dict[str, Any]:
        counts = Counter(root for root, _ in self._texts)
        roots = [{"root": root, "files": count} for root, count in sorted(counts.items())]
        return {"roots": roots, "files": len(self._texts)}

    def drop(self, roots: Sequence[Path] | None = None) -> None:
        """Remove these roots from the index; None means all."""
        wanted = None if roots is None else {str(Path(root).resolve()) for root in roots}
        for key in [key for key in self._texts if wanted is None or key[0] in wanted]:
            self._forget(key)

    def close(self) -> None:
        self.drop()

    def match(self, query: Query) -> list[Match]:
        """Return the chunks that share most words with the query.

        A word counts once in the text of the chunk and once more in its path or symbols.
        """
        wanted: dict[str, float] = {}
        for part in query.parts:
            for word in words_of(part.text):
                wanted[word] = max(wanted.get(word, 0.0), part.weight)
        total = 2 * sum(wanted.values())
        found = [
            match
            for key in self._texts
            if not query.roots or key[0] in query.roots
            for match in self._matches(key, wanted, total, is_metadata=query.strategy == "metadata")
        ]
        found.sort(key=lambda match: (-match.score, match.chunk.path, match.chunk.first_line))
        return found[: query.limit]

    def _matches(
        self, key: tuple[str, str], wanted: dict[str, float], total: float, *, is_metadata: bool
    ) -> Iterator[Match]:
        for chunk in _chunks(key, self._texts[key], self._facts[key]):
            fields = {"path": words_of(chunk.path), "symbols": words_of(" ".join(chunk.symbols))}
            names = fields["path"] | fields["symbols"]
            fields["content"] = frozenset() if is_metadata else words_of(chunk.text)
            score = sum(
                weight * ((word in names) + (word in fields["content"] or (is_metadata and word in names)))
                for word, weight in wanted.items()
            )
            if score:
                why = {name: tuple(sorted(words & wanted.keys())) for name, words in fields.items()}
                why = {name: words for name, words in why.items() if words}
                yield Match(chunk=chunk, score=score / total, why=why)

    def _read(self, key: tuple[str, str], file: Path, skipped: "Counter[str]") -> None:
        try:
            found = file.stat()
            content = b"" if found.st_size > MAX_FILE_BYTES else file.read_bytes()
        except OSError:
            skipped["unreadable"] += 1
            return
        if found.st_size > MAX_FILE_BYTES or b"\0" in content[:8192]:
            skipped["too_large" if not content else "binary"] += 1
            return
        text = content.decode("utf-8", "replace").replace("\r\n", "\n")
        self._texts[key] = text
        symbols = tuple(_symbols(text))
        self._facts[key] = FileFacts(
            root=key[0],
            path=key[1],
            size=len(content),
            lines=max(1, len(text.removesuffix("\n").split("\n"))),
            language={".py": "python", ".md": "markdown"}.get(file.suffix),
            title=next((symbol.name for symbol in symbols if symbol.kind == "heading"), None),
            symbols=symbols,
            changed_at=found.st_mtime,
            inode_changed_at=found.st_ctime,
        )

    def _forget(self, key: tuple[str, str]) -> None:
        self._texts.pop(key, None)
        self._facts.pop(key, None)


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            file = Path(folder, name)
            if file.is_file() and not file.is_symlink():
                yield file.relative_to(root).as_posix(), file


def _symbols(text: str) -> Iterator[Symbol]:
    for found in _SYMBOL.finditer(text):
        word, name, _, heading = found.groups()
        line = text.count("\n", 0, found.start(2 if name else 4)) + 1
        yield Symbol(name, _KINDS.get(word, "function"), line) if name else Symbol(heading, "heading", line)


def _chunks(key: tuple[str, str], text: str, facts: FileFacts) -> Iterator[Chunk]:
    lines = text.removesuffix("\n").split("\n")
    for start in range(0, len(lines), CHUNK_LINES):
        part = lines[start : start + CHUNK_LINES]
        first, last = start + 1, start + len(part)
        names = tuple(symbol.name for symbol in facts.symbols if first <= symbol.line <= last)
        yield Chunk(
            root=key[0], path=key[1], first_line=first, last_line=last, text="\n".join(part), symbols=names
        )


def memory(*roots: Path | str) -> Memory:
    """Return memory with an in-memory index of the files in these folders, for `LocalEffects(memory=...)`."""
    index = SimpleIndex()
    return Memory(index, index, roots)
