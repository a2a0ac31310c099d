"""Read inputs of several lines, with history and completion."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from weft.language.sexp.reader import read_data
from weft.language.source import Source


def is_whole(text: str) -> bool:
    """Return whether an input is complete: all parentheses are closed, or more text would not fix it."""
    if text.lstrip().startswith(","):
        return True
    reading = read_data(Source("<repl>", text))
    return not reading.is_open or len(reading.problems) > 1


class PlainInput:
    """Inputs from a pipe or a file; an incomplete one at the end is also yielded, and fails to parse."""

    def __iter__(self) -> Iterator[str]:
        if sys.stdin is None:
            return
        text = ""
        for line in sys.stdin.buffer:
            # Bytes that are not UTF-8 become lone surrogates, which the reader rejects.
            text += line.decode("utf-8", "surrogateescape")
            if is_whole(text):
                yield text
                text = ""
        if text.strip():
            yield text


PROMPT, CONTINUED = "weft> ", "  ... "

_WORD = re.compile(r"""[^\s()'"]*$""")


class TerminalInput:
    """Inputs typed at a terminal; Ctrl-C discards the current input, Ctrl-D ends the inputs.

    `names` returns the names that Tab can complete.
    """

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._prompts: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=CONTINUED,
            history=_history(),
            completer=NameCompleter(names),
            complete_while_typing=False,
            key_bindings=_keys(),
        )

    def __iter__(self) -> Iterator[str]:
        while True:
            try:
                yield self._prompts.prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return


class NameCompleter(Completer):
    """Completes the word before the cursor."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        found = _WORD.search(document.text_before_cursor)
        word = found[0] if found else ""
        for name in sorted(self._names()):
            if word and name.startswith(word):
                yield Completion(name, start_position=-len(word))


def _keys() -> KeyBindings:
    """Bind Enter: submit a complete input, insert a line break into an incomplete one."""
    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


def _history() -> History:
    """Return the history file in the user's state folder, or one in memory if it is not writable."""
    state = os.environ.get("XDG_STATE_HOME", "")
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises without a home folder
    folder = Path(state) if Path(state).is_absolute() else Path(home) / ".local" / "state"
    file = folder / "weft" / "repl_history"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Readable by the user only: inputs may be private.
        os.close(os.open(file, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(file)
