"""The registry of secret values, and texts and log records without them."""

import logging
import re
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from weft.errors import show_messages_through

MIN_CHARACTERS = 6
"""Shorter values are no secrets: they would be found everywhere, and cannot be kept anyway."""

MIN_CUT_CHARACTERS = 8
"""How much of a secret at the very end or beginning of a text is taken for a secret that was cut."""

T = TypeVar("T", bound=msgspec.Struct)

_UNSAFE_IN_NAMES = re.compile(r"[^A-Za-z0-9_.:-]")
_MARK = "[secret]"


class _Form(msgspec.Struct, frozen=True):
    text: str
    mark: str
    is_encoded: bool

    def replaced(self, text: str) -> str:
        if self.is_encoded:
            from weft.secrets.encodings import wrapped_pattern

            return re.sub(wrapped_pattern(self.text), lambda _: self.mark, text)
        return text.replace(self.text, self.mark)


class Registry:
    """The secret values of a process. Registering is rare; reading takes no lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self._forms: tuple[_Form, ...] = ()
        """The longest first, so that a secret which contains another one is replaced as a whole."""
        self._by_first: dict[str, list[str]] = {}
        """The forms by their first character."""
        self._marks: dict[str, str] = {}
        """What stands in the place of each value."""
        self._finder: Any = None
        """Finds a form, or an end of a secret, in one pass over a text, however many there are."""

    @property
    def is_any(self) -> bool:
        """Whether there is something to hide."""
        return bool(self._forms)

    def register(self, value: str, name: str) -> bool:
        """Keep the value secret from now on; False when it is too short for that."""
        value = value.strip()
        if len(value) < MIN_CHARACTERS or value in _MARK:
            return False
        with self._lock:
            if value not in self._names:
                self._names = {**self._names, value: name}
                marks = _marks(self._names)
                forms = _forms(marks)
                by_first: dict[str, list[str]] = {}
                for form in forms:
                    by_first.setdefault(form.text[0], []).append(form.text)
                self._finder = _finder(self._names, forms)
                self._marks, self._by_first, self._forms = marks, by_first, forms
        return True

    def forget_all(self) -> None:
        """Keep nothing secret any more."""
        with self._lock:
            self._names, self._marks, self._by_first, self._forms, self._finder = {}, {}, {}, (), None

    def redact(self, text: str) -> str:
        """The text with `[secret NAME]` in the place of every secret."""
        forms = self._forms
        # An error of somebody else's may have anything as its words.
        if not forms or not isinstance(text, str) or not self._may_hold(text):
            return text
        for form in forms:
            if form.text in text:
                text = form.replaced(text)
        return self._without_cut(self._without_broken(text, forms))

    def _may_hold(self, text: str) -> bool:
        """Whether a secret, or an end of one, is in a text: most have none, and are passed over quickly."""
        if len(text) < MIN_CHARACTERS:
            return False
        finder = self._finder
        if finder is None or finder.search(text.encode("utf-8", "surrogatepass")) is not None:
            return True
        return _is_broken(text) and finder.search(_flat(text).encode("utf-8", "surrogatepass")) is not None

    def unfinished(self, text: str) -> int:
        """Where a secret may have begun that the text does not hold to its end; the end, if none."""
        forms = self._forms
        if not forms:
            return len(text)
        for start in range(max(0, len(text) - len(forms[0].text) + 1), len(text)):
            candidates = self._by_first.get(text[start])
            if candidates and any(form.startswith(text[start:]) for form in candidates):
                return self._before_whole(text, start)
        return len(text)

    def _before_whole(self, text: str, start: int) -> int:
        """The place, or the beginning of a secret that lies across it: `abcabc` in `abcabcab`."""
        for form in self._forms:
            found = text.find(form.text, max(0, start - len(form.text) + 1), start + len(form.text) - 1)
            if 0 <= found < start:
                return self._before_whole(text, found)
        return start

    def redact_json(self, value: Any, *, with_numbers: bool = True) -> Any:
        """The value with every text in it, keys too, and every number that is a secret, redacted."""
        if not self._forms or value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.redact(value)
        try:
            # Most values hold none, and to know that of one text is quicker than to walk through the value.
            text = msgspec.json.encode(value).decode()
        except (TypeError, ValueError, OverflowError, RecursionError):
            return self._walked(value, with_numbers)
        return self._walked(value, with_numbers) if self._may_hold(text) else value

    def redact_encoded(self, text: bytes) -> bytes:
        """The JSON text with every text in it redacted; the same object when it holds no secret."""
        if not self._forms or not self._may_hold(text.decode()):
            return text
        value = msgspec.json.decode(text)
        shown = self._walked(value, with_numbers=True)
        return text if shown == value else msgspec.json.encode(shown)

    def _walked(self, value: Any, with_numbers: bool) -> Any:
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            return {
                self._walked(key, with_numbers): self._walked(part, with_numbers)
                for key, part in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._walked(part, with_numbers) for part in value]
        if with_numbers and isinstance(value, int | float) and not isinstance(value, bool):
            return self._number(value)
        return value

    def _number(self, value: float) -> Any:
        try:
            text = str(value)
        except ValueError:  # thousands of digits: nobody can print it
            return value
        return self._marks.get(text, value)

    def _without_broken(self, text: str, forms: tuple[_Form, ...]) -> str:
        """The text without encoded secrets that are broken into lines."""
        if not _is_broken(text):
            return text
        flat = _flat(text)
        for form in forms:
            if form.is_encoded and form.text in flat:
                text = form.replaced(text)
        return text

    def _without_cut(self, text: str) -> str:
        """The text without the part of a secret that is left where somebody cut it."""
        for value, name in self._names.items():
            least = _least_cut(value)
            tail = text[-len(value) + 1 :]
            start = tail.rfind(value[:least]) if least < len(value) else -1
            if start >= 0 and value.startswith(tail[start:]):
                text = text[: len(text) - len(tail) + start] + _mark(name)
            head = text[: len(value) - 1]
            end = head.find(value[-least:]) if least < len(value) else -1
            if end >= 0 and value.endswith(head[: end + least]):
                text = _mark(name) + text[end + least :]
        return text


def _is_broken(text: str) -> bool:
    return "\n" in text or "\\n" in text


def _flat(text: str) -> str:
    """The text without what breaks it into lines."""
    return text.replace("\r", "").replace("\n", "").replace("\\r", "").replace("\\n", "").replace(" ", "")


def _least_cut(value: str) -> int:
    """How many characters of a secret give it away where a text was cut."""
    return max(MIN_CUT_CHARACTERS, len(value) // 4)


def _finder(names: Mapping[str, str], forms: tuple[_Form, ...]) -> Any:
    """A pattern of everything that is looked for; None when it is too much for one."""
    import re2  # type: ignore[import-untyped]  # here: only who has a secret pays for it

    parts = {form.text for form in forms}
    for value in names:
        least = _least_cut(value)
        parts |= {value[:least], value[-least:]}
    parts |= {_in_json(part) for part in parts}
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 64 << 20
    words = [re2.escape(part.encode("utf-8", "surrogatepass")) for part in sorted(parts)]
    options.encoding = re2.Options.Encoding.LATIN1  # bytes as they are
    try:
        return re2.compile(b"|".join(words), options)
    except re2.error:
        return None


def _in_json(text: str) -> str:
    """The text as `redact_json` will see it."""
    return msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()[1:-1]


def _marks(names: Mapping[str, str]) -> dict[str, str]:
    marks = {value: _mark(name) for value, name in names.items()}
    # A mark that holds a secret would tell it, or be redacted itself.
    return {value: _MARK if any(one in mark for one in names) else mark for value, mark in marks.items()}


def _forms(marks: Mapping[str, str]) -> tuple[_Form, ...]:
    # Imported here: most commands have no secret, and need none of the encodings.
    from weft.secrets.encodings import encoded_forms, literal_forms

    found: dict[str, _Form] = {}
    for value, mark in marks.items():
        for form in literal_forms(value):
            found.setdefault(form, _Form(form, mark, is_encoded=False))
        for form in encoded_forms(value):
            found.setdefault(form, _Form(form, mark, is_encoded=True))
    return tuple(sorted(found.values(), key=lambda form: (-len(form.text), form.text)))


def _mark(name: str) -> str:
    return f"[secret {_UNSAFE_IN_NAMES.sub('_', name)}]"


_REGISTRY = Registry()


def register(value: str, name: str) -> bool:
    """Keep the value secret in this process from now on; False when it is too short for that.

    Log records, whoever makes them, and the messages of weft's errors are redacted from now on, too.
    """

    is_kept = _REGISTRY.register(value, name)
    if is_kept:
        redact_logs(redact)
        show_messages_through(redact)
    return is_kept


def forget_all() -> None:
    """Keep nothing secret any more: for tests, so that none has the secrets of another."""
    _REGISTRY.forget_all()


def is_any() -> bool:
    """Whether this process has something to hide."""
    return _REGISTRY.is_any


def redact(text: str) -> str:
    """The text with `[secret NAME]` in the place of every secret, raw, quoted or encoded."""
    return _REGISTRY.redact(text)


def unfinished(text: str) -> int:
    """Where a secret may have begun that the text does not hold to its end; the end, if none."""
    return _REGISTRY.unfinished(text)


def redact_json(value: Any) -> Any:
    """The JSON value with every text in it redacted; the value itself when there is nothing to hide."""
    return _REGISTRY.redact_json(value)


def redact_encoded(text: bytes) -> bytes:
    """The JSON text with every text in it redacted; the same object when it holds no secret."""
    return _REGISTRY.redact_encoded(text)


def redact_struct(value: T) -> T:
    """The struct with every text in it redacted, its numbers kept: a count of tokens is no secret.

    The struct itself when there is nothing to hide.
    """
    if not _REGISTRY.is_any:
        return value
    plain = msgspec.to_builtins(value)
    shown = _REGISTRY.redact_json(plain, with_numbers=False)
    return value if shown is plain else msgspec.convert(shown, type(value))


Redact = Callable[[str], str]

_LOCK = threading.Lock()
_INSTALLED: list[Redact] = []


def redact_logs(redact: Redact) -> None:
    """Have every log record of this process redacted when it is made; the second time does nothing.

    The factory, for filters of a logger do not see what its children log.
    """
    with _LOCK:
        if redact in _INSTALLED:
            return
        _INSTALLED.append(redact)
        make = logging.getLogRecordFactory()

        def make_redacted(*arguments: Any, **named: Any) -> logging.LogRecord:
            return _redacted(make(*arguments, **named), redact)

        logging.setLogRecordFactory(make_redacted)


def _redacted(record: logging.LogRecord, redact: Redact) -> logging.LogRecord:
    try:
        message = record.getMessage()
    except Exception:  # arguments that do not fit: the handler will say so, and print them
        record.msg, record.args = redact(f"{record.msg!s} {record.args!r}"), ()
        message = record.msg
    shown = redact(message)
    if shown != message:
        record.msg, record.args = shown, ()
    if record.exc_info and record.exc_info[0] is not None:
        told = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        shown = redact(told)
        if shown != told:
            record.exc_info, record.exc_text = None, shown
    if record.stack_info:
        record.stack_info = redact(record.stack_info)
    return record
