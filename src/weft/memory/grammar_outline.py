"""The outline of a file by the grammar of its language: the extra `weft[outline]`.

A parser runs in a process of its own, one for each process that indexes; it is started when a file needs it.
A file over which it ends, or that takes too long, has no outline from here and is not tried again.
"""

import atexit
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

from weft.memory.grammars import BY_LANGUAGE
from weft.memory.protocol import Symbol

MAX_BYTES = 500_000
"""Larger files are generated."""

ANSWER_SECONDS = 30.0
"""How long an answer may take. The process ends itself after a second of work, unless it cannot even that."""

END_SECONDS = 1.0
"""How long it may take to end when nobody asks any more."""

MAX_DEATHS = 20
"""After so many files that ended it no process is started any more: they come from somebody who means it."""

_START = "import sys; sys.path[:] = {path!r}; from weft.memory.grammar_worker import main; main()"


def grammar_outline(language: str, text: str) -> list[Symbol] | None:
    """The names that a file defines; None when there is no grammar for it, or it cannot be read by it."""
    if not has_grammar(language):
        return None
    content = text.encode("utf-8", "replace")
    if len(content) > MAX_BYTES:
        return None
    return _parsers.outline(language, content)


@cache
def has_grammar(language: str) -> bool:
    """Whether a language can be read: the extra is there. Nothing of it is imported."""
    grammars = BY_LANGUAGE.get(language, ())
    modules = {"tree_sitter", *(grammar.module for grammar in grammars)}
    return bool(grammars) and all(find_spec(module) is not None for module in modules)


class Parsers:
    """A process that parses, started again when a file has ended it."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self._command = command
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self.deaths = 0
        """How many texts have ended it."""

    def outline(self, language: str, content: bytes) -> list[Symbol] | None:
        """The names in a text; None when the process did not survive it."""
        with self._lock:
            answer = self._asked(language, content) or self._asked_again(language, content)
        return None if answer is None else [Symbol(*each) for each in json.loads(answer)]

    def _asked_again(self, language: str, content: bytes) -> bytes | None:
        """The answer of a new process, unless it was this text that ended the old one."""
        for _ in range(2):
            if self._process is not None and self._end() != 0:
                self.deaths += 1
                return None
            if self.deaths >= MAX_DEATHS or not self._started():
                return None
            answer = self._asked(language, content)
            if answer is not None:
                return answer
        return None

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _asked(self, language: str, content: bytes) -> bytes | None:
        if self._connection is None:
            return None
        try:
            self._connection.sendall(json.dumps([language, len(content)]).encode() + b"\n" + content)
            answer = b""
            while not answer.endswith(b"\n"):
                part = self._connection.recv(1_000_000)
                if not part:
                    return None
                answer += part
        except OSError:  # it ended, or says nothing
            return None
        return answer

    def _started(self) -> bool:
        """Start a process with our own module path; never the working folder, where strange code may lie."""
        path = [part for part in sys.path if part]
        command = self._command or [sys.executable, "-P", "-S", "-c", _START.format(path=path)]
        ours, theirs = socket.socketpair()
        ours.settimeout(ANSWER_SECONDS)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            except OSError:
                ours.close()
                return False
        self._connection = ours
        return True

    def _end(self) -> int:
        """End the process; gives how it ended, which is 0 when it had nothing to do for long."""
        connection, process = self._connection, self._process
        self._connection = self._process = None
        if connection is not None:
            connection.close()
        if process is None:
            return 0
        try:
            return process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return 1


_parsers = Parsers()
atexit.register(_parsers.close)
