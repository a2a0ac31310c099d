"""Log records without secrets, whoever makes them: libraries log URLs and headers, too."""

import logging
import threading
import traceback
from collections.abc import Callable
from typing import Any

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
