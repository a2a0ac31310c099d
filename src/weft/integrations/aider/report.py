"""The result of an aider run: changes, usage and transcript."""

import time
from pathlib import Path

import msgspec
from msgspec import Struct

from weft.integrations.aider.changes import Changed
from weft.integrations.aider.command_line import Scratch
from weft.integrations.aider.request import AiderModel, AiderRequest, AiderResult, AiderUsage
from weft.secrets.truncation import cut_middle

MAX_TRANSCRIPT_CHARACTERS = 1_000_000


class _MessageSent(Struct):
    """The properties of a `message_send` event: the usage of one model request."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


class _Event(Struct):
    """A line of aider's event log."""

    event: str
    properties: msgspec.Raw = msgspec.Raw(b"{}")


def result_of(
    request: AiderRequest, scratch: Scratch, changed: Changed, code: int | None, started: float
) -> AiderResult:
    """Return the result of a run that has ended; `started` is its start on the monotonic clock.

    `code` is the exit code; None if the run timed out.
    """
    return AiderResult(
        mode=request.mode,
        model=request.model.id,
        diff=changed.diff,
        edited_files=changed.edited_files,
        commit=changed.commits[0] if changed.commits else None,
        commits=changed.commits,
        usage=usage_of(scratch.events, request.model),
        transcript=transcript_of(scratch.transcript),
        exit_code=code,
        duration_seconds=round(time.monotonic() - started, 3),
    )


def usage_of(log: Path, model: AiderModel) -> AiderUsage:
    """Sum the usage in aider's event log, which is exact; the printed figures are rounded."""
    sent = [
        msgspec.json.decode(event.properties, type=_MessageSent)
        for event in _events(log)
        if event.event == "message_send"
    ]
    cost = sum(message.cost for message in sent)
    return AiderUsage(
        input_tokens=sum(message.prompt_tokens for message in sent),
        output_tokens=sum(message.completion_tokens for message in sent),
        cost=cost if cost > 0 or model.is_free else None,
        answers=len(sent),
    )


def transcript_of(history: Path) -> str:
    """Return aider's transcript in Markdown, redacted and truncated; empty if there is no transcript."""
    try:
        text = history.read_text("utf-8", "replace")
    except OSError:
        return ""
    return cut_middle(text.strip(), MAX_TRANSCRIPT_CHARACTERS)


def _events(log: Path) -> list[_Event]:
    try:
        lines = log.read_bytes().splitlines()
    except OSError:
        return []
    events = []
    for line in lines:
        try:
            events.append(msgspec.json.decode(line, type=_Event))
        except msgspec.DecodeError:  # a killed process may leave an incomplete last line
            continue
    return events
