"""Files prepared by several processes, for a first run: more than one core reads, cuts and compresses."""

import os
import queue
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from weft.memory.prepare_process import PrepareProcess
from weft.memory.prepare_worker import Batch, Done, not_prepared, prepare_batch
from weft.memory.walking import Found

FILES_A_BATCH = 200
BYTES_A_BATCH = 800_000
"""A batch is written in one transaction; so much takes about as long as one should. Half as much would cost a
twentieth more to write, and twice as many pauses."""

WORTH_BYTES = 6_000_000
"""With less to do, starting processes takes longer than they save."""

MAX_PROCESSES = 4
"""One connection writes; more would wait for it."""

NO_HASHES: Mapping[str, bytes] = MappingProxyType({})


def prepare_files(
    root: Path, files: Sequence[Found], max_bytes: int, hashes: Mapping[str, bytes] = NO_HASHES
) -> Iterator[list[Done]]:
    """The files prepared, some at a time, in no order; of those that still have their hash, that alone."""
    processes = min(os.cpu_count() or 1, MAX_PROCESSES)
    if processes < 2 or not sys.executable or sum(file.size for file in files) < WORTH_BYTES:
        for batch in _batches(root, files, max_bytes, hashes):
            yield prepare_batch(batch)
        return
    yield from _Pool(root, files, max_bytes, hashes).run(processes)


class _Pool:
    """Threads that each talk to a process, and a queue that they fill."""

    def __init__(
        self, root: Path, files: Sequence[Found], max_bytes: int, hashes: Mapping[str, bytes]
    ) -> None:
        self._root = root
        self._max_bytes = max_bytes
        self._batches = _batches(root, files, max_bytes, hashes)
        self._taking = threading.Lock()
        self._done: queue.Queue[list[Done] | None] = queue.Queue(maxsize=1)
        """One, beside those that the threads hold: what waits in the end is written by one core alone."""
        self._is_over = threading.Event()
        self._error: Exception | None = None

    def run(self, processes: int) -> Iterator[list[Done]]:
        """What the processes give until all is done."""
        threads = [threading.Thread(target=self._talk, name="weft-prepare") for _ in range(processes)]
        for thread in threads:
            thread.start()
        try:
            running = processes
            while running:
                done = self._done.get()
                if done is None:
                    running -= 1
                else:
                    yield done
        finally:
            self._is_over.set()
            while any(thread.is_alive() for thread in threads):
                with suppress(queue.Empty):  # one of them may wait to be heard
                    self._done.get(timeout=0.05)
            for thread in threads:
                thread.join()
        if self._error is not None:
            raise self._error

    def _talk(self) -> None:
        process = PrepareProcess()
        try:
            while not self._is_over.is_set() and (batch := self._next()) is not None:
                self._done.put(self._ask(process, batch))
        except Exception as error:  # `run` raises it: a batch must not be lost unsaid
            self._error = error
            self._is_over.set()
        finally:
            process.end()
            self._done.put(None)

    def _next(self) -> Batch | None:
        with self._taking:
            return next(self._batches, None)

    def _ask(self, process: PrepareProcess, batch: Batch) -> list[Done]:
        """The batch prepared; one by one when the process did not survive it: a file may have ended it."""
        done = process.ask(batch)
        return [self._alone(process, path) for path in batch.paths] if done is None else done

    def _alone(self, process: PrepareProcess, path: str) -> Done:
        batch = Batch(os.fsencode(self._root), self._max_bytes, [path])
        if not process.is_there():
            return prepare_batch(batch)[0]
        done = process.ask(batch)
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
