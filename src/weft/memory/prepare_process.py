"""A process that prepares batches of files, started again when a file has ended it."""

import subprocess
import sys
from contextlib import suppress

import msgspec

from weft.memory.prepare_worker import Batch, Done, receive, send

_START = "import sys; sys.path[:] = {path!r}; from weft.memory.prepare_worker import main; main()"

_decoder = msgspec.msgpack.Decoder(list[Done])


class PrepareProcess:
    """Answers batches, for one thread; its process is started when it is first asked."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_hopeless = False

    def ask(self, batch: Batch) -> list[Done] | None:
        """The files of a batch; None when the process did not survive them, or there is none."""
        if self._process is None and not self._is_hopeless:
            self._process = _started()
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None
        try:
            send(process.stdin, batch)
            answer = receive(process.stdout)
            done = None if answer is None else _decoder.decode(answer)
        except (OSError, msgspec.MsgspecError):
            done = None
        if done is None or len(done) != len(batch.paths):
            self.end()
            return None
        return done

    def is_there(self) -> bool:
        """Whether a process answers at all; after one that does not, none is started any more."""
        if self._process is None and not self._is_hopeless:
            self._is_hopeless = self.ask(Batch(b"/", 0, [])) is None
        return not self._is_hopeless

    def end(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        process.wait()


def _started() -> subprocess.Popen[bytes] | None:
    """A process with our own module path; never the working folder, where strange code may lie."""
    path = [part for part in sys.path if part]
    command = [sys.executable, "-P", "-c", _START.format(path=path)]
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError:
        return None
