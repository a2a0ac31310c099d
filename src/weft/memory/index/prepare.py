"""Prepares files for the index, in several processes."""

import gc
import hashlib
import logging
import os
import re
import sys
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct

from weft.memory.files.chunks import Cut, cut
from weft.memory.files.classify import language_of
from weft.memory.files.decode import decode
from weft.memory.files.outline import Outline, outline_of
from weft.memory.files.walk import Found, Reader
from weft.memory.index.database import pack
from weft.memory.protocol import Symbol
from weft.memory.search.query import fields_of, path_words
from weft.process.worker import ChildProcess, serve

MAX_TITLE_CHARACTERS = 200

_NAME = re.compile(r"[\w$]+")
_WORD_CHARACTER = re.compile(r"[^\W_]")


class PreparedChunk(Struct, frozen=True, array_like=True, gc=False):
    """A row of `memory_chunks`, and its columns of `memory_words`."""

    first_line: int
    last_line: int
    start_character: int
    end_character: int | None
    symbols: str
    headings: str
    fields: tuple[str, str, str, str, str]


class Prepared(Struct, frozen=True, array_like=True, gc=False):
    """Data of a file as stored in the index."""

    hash: bytes
    skipped: str | None = None
    """Why the text is not indexed: binary or too_large; None if it is indexed."""
    lines: int = 0
    language: str | None = None
    title: str | None = None
    symbols: bytes | None = None
    """JSON, as in `memory_files`."""
    text: bytes = b""
    """Compressed by `pack`."""
    chunks: tuple[PreparedChunk, ...] = ()


def hash_of(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def prepare(path: str, content: bytes) -> Prepared:
    """Return the data of a file that the index stores."""
    digest = hash_of(content)
    text = decode(content)
    if text is None:
        return Prepared(digest, "binary")
    language = language_of(path, text)
    lines = text_lines(text)
    outline = outline_of(language, text, lines)
    return Prepared(
        hash=digest,
        lines=len(lines),
        language=language,
        title=outline.title[:MAX_TITLE_CHARACTERS] if outline.title else None,
        symbols=_symbols(outline),
        text=pack(text.encode()),
        chunks=tuple(_chunks(path_words(path), lines, outline)),
    )


def _symbols(outline: Outline) -> bytes | None:
    rows = [(symbol.name, symbol.kind, symbol.line) for symbol in outline.symbols]
    return msgspec.json.encode(rows) if rows else None


def text_lines(text: str) -> list[str]:
    """Split a text into lines without line ends; a final newline does not begin another line."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def text_at(lines: Sequence[str], part: Cut) -> str:
    first, last, start, end = part
    return "\n".join(lines[first - 1 : last])[start:end]


def _chunks(path: str, lines: list[str], outline: Outline) -> list[PreparedChunk]:
    """Return the chunks that have a word, and always the first, which is shown if a query names the file."""
    symbols = outline.symbols
    starts = [symbol.line for symbol in symbols]
    return [
        _chunk(path, lines, part, _symbols_in(symbols, starts, part[0], part[1]), outline.title)
        for number, part in enumerate(cut(lines, starts))
        if not number or _WORD_CHARACTER.search(text_at(lines, part))
    ]


def _symbols_in(symbols: tuple[Symbol, ...], starts: list[int], first: int, last: int) -> tuple[Symbol, ...]:
    """Return the symbols of these lines; if none starts at the first line, also the last symbol above."""
    begin, end = bisect_right(starts, first - 1), bisect_right(starts, last)
    starts_here = begin < len(starts) and starts[begin] == first
    return symbols[max(0, begin - (0 if starts_here else 1)) : end]


def _chunk(
    path: str, lines: list[str], part: Cut, symbols: tuple[Symbol, ...], title: str | None
) -> PreparedChunk:
    text = text_at(lines, part)
    content = text.encode()
    if part[3] is not None:
        symbols = _named_in(text, symbols)
    names = " ".join(dict.fromkeys([symbol.name for symbol in symbols if symbol.kind != "heading"]))
    headings = "\n".join([symbol.name for symbol in symbols if symbol.kind == "heading"])
    if part[0] == 1 and title and not headings:
        headings = title[:MAX_TITLE_CHARACTERS]
    return PreparedChunk(*part, names, headings, fields_of(path, names, headings, content))


def _named_in(text: str, symbols: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    """Return the symbols that occur in a part of a line: the line may define thousands."""
    words = set(_NAME.findall(text))
    return tuple(symbol for symbol in symbols if symbol.name in words)


_log = logging.getLogger(__name__)


class Batch(Struct, frozen=True, array_like=True):
    """Files to prepare."""

    root: bytes
    max_bytes: int
    paths: list[str]
    hashes: dict[str, bytes] = {}
    """Known hashes by path; a file with an unchanged hash is not prepared again."""


class Done(Struct, frozen=True, array_like=True):
    """A prepared file; `prepared` is None if it cannot be read or prepared."""

    found: Found
    prepared: Prepared | None


def prepare_batch(batch: Batch) -> list[Done]:
    with Reader(Path(os.fsdecode(batch.root))) as reader:
        return [prepare_file(reader, path, batch.max_bytes, batch.hashes.get(path)) for path in batch.paths]


def prepare_file(reader: Reader, path: str, max_bytes: int, known_hash: bytes | None = None) -> Done:
    """Read a file and prepare it; if its hash is `known_hash`, the result has only the hash."""
    try:
        content, known = reader.read(path, max_bytes)
    except (OSError, ValueError):
        return not_prepared(path)
    found = Found(path, known.st_size, known.st_mtime_ns, known.st_ctime_ns)
    if len(content) > max_bytes:
        return Done(found, Prepared(b"", "too_large"))
    if known_hash and hash_of(content) == known_hash:
        return Done(found, Prepared(known_hash))
    try:
        return Done(found, prepare(path, content))
    except Exception:
        # A bug that shows with one file must not lose the others of its batch.
        _log.exception("a file cannot be prepared", extra={"action": "prepare_failed", "path": path})
        return not_prepared(path)


def not_prepared(path: str) -> Done:
    return Done(Found(path, 0, 0, 0), None)


NICENESS = 3
"""Lower priority than the process that writes, as that is the bottleneck."""


def main() -> None:
    """Prepare batches for the indexing process."""
    os.nice(NICENESS)
    gc.disable()  # nothing here has cycles, and the collector takes a tenth of the time
    decoder = msgspec.msgpack.Decoder(Batch)
    serve(lambda batch: msgspec.msgpack.encode(prepare_batch(decoder.decode(batch))))


_START = "from weft.memory.index.prepare import main; main()"

_decoder = msgspec.msgpack.Decoder(list[Done])


class PrepareProcess:
    """Process that prepares batches for one thread; it is started on first use."""

    def __init__(self) -> None:
        self._child = ChildProcess(_START)
        self._is_unusable = False

    def prepare(self, batch: Batch) -> list[Done] | None:
        """Return the prepared files; None if they killed the process, or if no process can be started."""
        if not self._child.is_running and (self._is_unusable or not self._child.start()):
            return None
        response = self._child.request(msgspec.msgpack.encode(batch))
        if response is None:
            self.end()
            return None
        return _decoder.decode(response)

    def is_usable(self) -> bool:
        """Return False if a new process fails even with an empty batch; then no further one is started."""
        if not self._child.is_running and not self._is_unusable:
            self._is_unusable = self.prepare(Batch(b"/", 0, [])) is None
        return not self._is_unusable

    def end(self) -> None:
        self._child.end()


FILES_A_BATCH = 200
BYTES_A_BATCH = 800_000
"""Writing a batch of this size takes about as long as a transaction should. With batches of half this size
writing takes a twentieth longer and pauses twice as often."""

WORTH_BYTES = 6_000_000
"""With fewer bytes, starting processes takes longer than they save."""

MAX_PROCESSES = 4
"""More processes would wait for the single connection that writes."""

NO_HASHES: Mapping[str, bytes] = MappingProxyType({})


def prepare_files(
    root: Path, files: Sequence[Found], max_bytes: int, hashes: Mapping[str, bytes] = NO_HASHES
) -> Iterator[list[Done]]:
    """Yield the prepared files in batches; files with an unchanged hash have only the hash."""
    batches = _batches(root, files, max_bytes, hashes)
    count = min(os.cpu_count() or 1, MAX_PROCESSES)
    if count < 2 or not sys.executable or sum(file.size for file in files) < WORTH_BYTES:
        yield from map(prepare_batch, batches)
        return
    processes = [PrepareProcess() for _ in range(count)]
    idle = processes.copy()

    def work(batch: Batch) -> list[Done]:
        process = idle.pop()  # there are as many as threads
        try:
            done = process.prepare(batch)
            # If the batch kills the process, prepare its files one by one.
            return [_prepare_single(process, batch, path) for path in batch.paths] if done is None else done
        finally:
            idle.append(process)

    threads = ThreadPoolExecutor(count, "weft-prepare")
    try:
        pending: deque[Future[list[Done]]] = deque()
        for batch in batches:
            pending.append(threads.submit(work, batch))
            # One more than there are processes, so that none is idle while a batch is written.
            if len(pending) > count:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        threads.shutdown(cancel_futures=True)
        for process in processes:
            process.end()


def _prepare_single(process: PrepareProcess, batch: Batch, path: str) -> Done:
    single = Batch(batch.root, batch.max_bytes, [path])
    if not process.is_usable():
        return prepare_batch(single)[0]
    done = process.prepare(single)
    return not_prepared(path) if done is None else done[0]


def _batches(
    root: Path, files: Sequence[Found], max_bytes: int, hashes: Mapping[str, bytes]
) -> Iterator[Batch]:
    def batch() -> Batch:
        known = {path: hashes[path] for path in paths if path in hashes}
        return Batch(os.fsencode(root), max_bytes, paths, known)

    paths: list[str] = []
    size = 0
    for file in files:
        paths.append(file.path)
        size += file.size
        if len(paths) >= FILES_A_BATCH or size >= BYTES_A_BATCH:
            yield batch()
            paths, size = [], 0
    if paths:
        yield batch()
