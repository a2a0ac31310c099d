"""The registry of secret values, and the redaction of texts, JSON values and log records."""

import logging
import re
import threading
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec

from weft.errors import show_messages_through

MIN_CHARACTERS = 6
"""Shortest value that can be a secret; shorter ones would match in ordinary text."""

MIN_CUT_CHARACTERS = 8
"""Shortest part of a secret that is redacted at the beginning or end of a text, where it may be truncated."""

T = TypeVar("T", bound=msgspec.Struct)

_UNSAFE_IN_NAMES = re.compile(r"[^A-Za-z0-9_.:-]")
_MARK = "[secret]"


class _Form(msgspec.Struct, frozen=True):
    """A form in which a secret can appear in a text, and the mark that replaces it."""

    text: str
    mark: str
    is_encoded: bool

    def replace_in(self, text: str) -> str:
        if self.is_encoded:
            from weft.secrets.encodings import wrapped_pattern

            return re.sub(wrapped_pattern(self.text), lambda _: self.mark, text)
        return text.replace(self.text, self.mark)


class Registry:
    """A set of secret values. Registration is rare and takes a lock; redaction takes no lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self._forms: tuple[_Form, ...] = ()
        """Longest first, so that a secret that contains another one is replaced as a whole."""
        self._by_first: dict[str, list[str]] = {}
        """The forms by their first character."""
        self._marks: dict[str, str] = {}
        """The mark that replaces each value."""
        self._finder: Any = None
        """Pattern of all forms and of truncated secrets, for a quick search; None if it is too large."""

    @property
    def has_secrets(self) -> bool:
        """Return True if a secret is registered."""
        return bool(self._forms)

    def register(self, value: str, name: str) -> bool:
        """Redact the value from now on; return False if it is too short, or a part of the mark `[secret]`."""
        value = value.strip()
        if len(value) < MIN_CHARACTERS or value in _MARK:
            return False
        with self._lock:
            if value not in self._names:
                self._names = {**self._names, value: name}
                marks = _make_marks(self._names)
                forms = _make_forms(marks)
                by_first: dict[str, list[str]] = {}
                for form in forms:
                    by_first.setdefault(form.text[0], []).append(form.text)
                self._finder = _compile_finder(self._names, forms)
                self._marks, self._by_first, self._forms = marks, by_first, forms
        return True

    def forget_all(self) -> None:
        """Remove all secrets."""
        with self._lock:
            self._names, self._marks, self._by_first, self._forms, self._finder = {}, {}, {}, (), None

    def redact(self, text: str) -> str:
        """Replace every secret in the text with `[secret NAME]`."""
        forms = self._forms
        # The message of a foreign exception need not be a string.
        if not forms or not isinstance(text, str) or not self._may_hold(text):
            return text
        for form in forms:
            if form.text in text:
                text = form.replace_in(text)
        return self._redact_cut(self._redact_wrapped(text, forms))

    def _may_hold(self, text: str) -> bool:
        """Return False if the text certainly has no secret, whole or truncated, which is usual."""
        if len(text) < MIN_CHARACTERS:
            return False
        finder = self._finder
        if finder is None or finder.search(text.encode("utf-8", "surrogatepass")) is not None:
            return True
        return _has_breaks(text) and finder.search(_joined(text).encode("utf-8", "surrogatepass")) is not None

    def partial_match_start(self, text: str) -> int:
        """Return the index where an incomplete secret at the end of the text may begin, or `len(text)`."""
        forms = self._forms
        if not forms:
            return len(text)
        for start in range(max(0, len(text) - len(forms[0].text) + 1), len(text)):
            candidates = self._by_first.get(text[start])
            if candidates and any(form.startswith(text[start:]) for form in candidates):
                return self._extend_over_whole(text, start)
        return len(text)

    def _extend_over_whole(self, text: str, start: int) -> int:
        """Return `start`, or where a whole secret that overlaps it begins: 0 for `abcabc` in `abcabcab`."""
        for form in self._forms:
            found = text.find(form.text, max(0, start - len(form.text) + 1), start + len(form.text) - 1)
            if 0 <= found < start:
                return self._extend_over_whole(text, found)
        return start

    def redact_json(self, value: Any, *, with_numbers: bool = True) -> Any:
        """Redact all strings in a JSON value, also keys, and with `with_numbers` numbers that are secrets."""
        if not self._forms or value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.redact(value)
        try:
            # Most values have no secrets, and searching one text is faster than walking through the value.
            text = msgspec.json.encode(value).decode()
        except (TypeError, ValueError, OverflowError, RecursionError):
            return self._redact_parts(value, with_numbers)
        return self._redact_parts(value, with_numbers) if self._may_hold(text) else value

    def redact_encoded(self, text: bytes) -> bytes:
        """Redact all strings in encoded JSON; return the same object if it has no secrets."""
        if not self._forms or not self._may_hold(text.decode()):
            return text
        value = msgspec.json.decode(text)
        shown = self._redact_parts(value, with_numbers=True)
        return text if shown == value else msgspec.json.encode(shown)

    def _redact_parts(self, value: Any, with_numbers: bool) -> Any:
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            return {
                self._redact_parts(key, with_numbers): self._redact_parts(part, with_numbers)
                for key, part in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._redact_parts(part, with_numbers) for part in value]
        if with_numbers and isinstance(value, int | float) and not isinstance(value, bool):
            return self._redact_number(value)
        return value

    def _redact_number(self, value: float) -> Any:
        try:
            text = str(value)
        except ValueError:  # thousands of digits, which Python does not print
            return value
        return self._marks.get(text, value)

    def _redact_wrapped(self, text: str, forms: tuple[_Form, ...]) -> str:
        """Redact encoded secrets that line breaks divide."""
        if not _has_breaks(text):
            return text
        flat = _joined(text)
        for form in forms:
            if form.is_encoded and form.text in flat:
                text = form.replace_in(text)
        return text

    def _redact_cut(self, text: str) -> str:
        """Redact a part of a secret at the beginning or end of a truncated text."""
        for value, name in self._names.items():
            least = _min_cut_length(value)
            tail = text[-len(value) + 1 :]
            start = tail.rfind(value[:least]) if least < len(value) else -1
            if start >= 0 and value.startswith(tail[start:]):
                text = text[: len(text) - len(tail) + start] + _format_mark(name)
            head = text[: len(value) - 1]
            end = head.find(value[-least:]) if least < len(value) else -1
            if end >= 0 and value.endswith(head[: end + least]):
                text = _format_mark(name) + text[end + least :]
        return text


def _has_breaks(text: str) -> bool:
    return "\n" in text or "\\n" in text


def _joined(text: str) -> str:
    """Remove line breaks, raw or written as `\\n`, and blanks."""
    return text.replace("\r", "").replace("\n", "").replace("\\r", "").replace("\\n", "").replace(" ", "")


def _min_cut_length(value: str) -> int:
    """Return the least length of a truncated part of this secret that is redacted."""
    return max(MIN_CUT_CHARACTERS, len(value) // 4)


def _compile_finder(names: Mapping[str, str], forms: tuple[_Form, ...]) -> Any:
    """Compile a pattern of all forms and of truncated secrets; return None if it would be too large."""
    import re2  # type: ignore[import-untyped]  # imported here, because only processes with secrets need it

    parts = {form.text for form in forms}
    for value in names:
        least = _min_cut_length(value)
        parts |= {value[:least], value[-least:]}
    parts |= {_as_in_json(part) for part in parts}
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 64 << 20
    words = [re2.escape(part.encode("utf-8", "surrogatepass")) for part in sorted(parts)]
    options.encoding = re2.Options.Encoding.LATIN1  # bytes as they are
    try:
        return re2.compile(b"|".join(words), options)
    except re2.error:
        return None


def _as_in_json(text: str) -> str:
    """Return the text as it appears in JSON encoded by msgspec."""
    return msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()[1:-1]


def _make_marks(names: Mapping[str, str]) -> dict[str, str]:
    marks = {value: _format_mark(name) for value, name in names.items()}
    # A mark whose name contains a secret would reveal the secret, or be redacted itself.
    return {
        value: _MARK if any(secret in mark for secret in names) else mark for value, mark in marks.items()
    }


def _make_forms(marks: Mapping[str, str]) -> tuple[_Form, ...]:
    # Imported here, because most commands have no secrets.
    from weft.secrets.encodings import encoded_forms, literal_forms

    found: dict[str, _Form] = {}
    for value, mark in marks.items():
        for form in literal_forms(value):
            found.setdefault(form, _Form(form, mark, is_encoded=False))
        for form in encoded_forms(value):
            found.setdefault(form, _Form(form, mark, is_encoded=True))
    return tuple(sorted(found.values(), key=lambda form: (-len(form.text), form.text)))


def _format_mark(name: str) -> str:
    return f"[secret {_UNSAFE_IN_NAMES.sub('_', name)}]"


_REGISTRY = Registry()


def register(value: str, name: str) -> bool:
    """Redact the value in this process from now on, also in log records and in messages of weft's errors.

    Return False if the value is too short, or a part of the mark `[secret]`.
    """
    is_kept = _REGISTRY.register(value, name)
    if is_kept:
        redact_logs(redact)
        show_messages_through(redact)
    return is_kept


def has_secrets() -> bool:
    """Return True if this process has a registered secret."""
    return _REGISTRY.has_secrets


forget_all = _REGISTRY.forget_all
redact = _REGISTRY.redact
partial_match_start = _REGISTRY.partial_match_start
redact_json = _REGISTRY.redact_json
redact_encoded = _REGISTRY.redact_encoded


def redact_struct(value: T) -> T:
    """Redact all strings in a struct, but not its numbers, because they are counts and not secrets.

    Return the same object if it surely has no secrets.
    """
    if not _REGISTRY.has_secrets:
        return value
    plain = msgspec.to_builtins(value)
    shown = _REGISTRY.redact_json(plain, with_numbers=False)
    return value if shown is plain else msgspec.convert(shown, type(value))


Redact = Callable[[str], str]


@cache
def redact_logs(redact: Redact) -> None:
    """Redact every log record of this process when it is created. Idempotent.

    It replaces the record factory, because filters of a logger do not see the records of its children.
    """
    make = logging.getLogRecordFactory()

    def make_redacted(*arguments: Any, **named: Any) -> logging.LogRecord:
        return _redact_record(make(*arguments, **named), redact)

    logging.setLogRecordFactory(make_redacted)


def _redact_record(record: logging.LogRecord, redact: Redact) -> logging.LogRecord:
    try:
        message = record.getMessage()
    except Exception:  # the arguments do not match the format; a log handler would print them unredacted
        record.msg, record.args = redact(f"{record.msg!s} {record.args!r}"), ()
        message = record.msg
    shown = redact(message)
    if shown != message:
        record.msg, record.args = shown, ()
    if record.exc_info and record.exc_info[0] is not None:
        formatted = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        shown = redact(formatted)
        if shown != formatted:
            record.exc_info, record.exc_text = None, shown
    if record.stack_info:
        record.stack_info = redact(record.stack_info)
    return record
