"""A process that reads files and prepares them for the index; it ends when nobody asks any more."""

import gc
import logging
import os
import signal
import sys
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from weft.memory.preparing import Prepared, hash_of, prepare
from weft.memory.reading import Reader
from weft.memory.walking import Found

_log = logging.getLogger(__name__)


class Batch(Struct, frozen=True, array_like=True):
    """Files to prepare."""

    root: bytes
    max_bytes: int
    paths: list[str]
    hashes: dict[str, bytes] = {}
    """What is known of some of them: one that still has it is not prepared again."""


class Done(Struct, frozen=True, array_like=True):
    """A file that was prepared; nothing of one that cannot be read or prepared."""

    found: Found
    prepared: Prepared | None


def prepare_batch(batch: Batch) -> list[Done]:
    """Read the files of a batch and prepare them."""
    with Reader(Path(os.fsdecode(batch.root))) as reader:
        return [prepare_file(reader, path, batch.max_bytes, batch.hashes.get(path)) for path in batch.paths]


def prepare_file(reader: Reader, path: str, max_bytes: int, known_hash: bytes | None = None) -> Done:
    """Read a file and prepare it; of one that holds what is known, only its hash."""
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
        # Whatever we did wrong with this one: the others of its batch are not to be lost with it.
        _log.exception("a file cannot be prepared", extra={"action": "prepare_failed", "path": path})
        return not_prepared(path)


def not_prepared(path: str) -> Done:
    """A file that is counted as left out."""
    return Done(Found(path, 0, 0, 0), None)


def send(pipe: IO[bytes], message: Batch | list[Done]) -> None:
    """Write a message with its length before it."""
    content = msgspec.msgpack.encode(message)
    pipe.write(len(content).to_bytes(4, "big") + content)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes | None:
    """Read a message; None at the end."""
    head = pipe.read(4)
    if len(head) < 4:
        return None
    size = int.from_bytes(head, "big")
    content = pipe.read(size)
    return content if len(content) == size else None


NICENESS = 3
"""Behind the process that writes, which all the others wait for in the end."""


def main() -> None:
    """Answer batches from standard input until it ends."""
    # Ctrl-C is for the process that asks; it closes our input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    gc.disable()  # nothing here has cycles, and looking for them takes a tenth of the time
    decoder = msgspec.msgpack.Decoder(Batch)
    with os.fdopen(os.dup(1), "wb") as out:
        while (message := receive(sys.stdin.buffer)) is not None:
            send(out, prepare_batch(decoder.decode(message)))
