"""What a run of aider leaves behind in its scratch folder: the transcript, and what it took."""

from pathlib import Path

import msgspec
from msgspec import Struct

from weft.aider.request import AiderModel, AiderUsage
from weft.secrets.cutting import cut_middle
from weft.secrets.registry import redact

MAX_TRANSCRIPT_CHARACTERS = 1_000_000


class _Sent(Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


class _Event(Struct):
    event: str
    properties: msgspec.Raw = msgspec.Raw(b"{}")


def usage_of(log: Path, model: AiderModel) -> AiderUsage:
    """What the messages took. From aider's log of events, which is exact; what it prints is rounded."""
    sent = [
        msgspec.json.decode(event.properties, type=_Sent)
        for event in _events(log)
        if event.event == "message_send"
    ]
    cost = sum(one.cost for one in sent)
    return AiderUsage(
        input_tokens=sum(one.prompt_tokens for one in sent),
        output_tokens=sum(one.completion_tokens for one in sent),
        cost=cost if cost > 0 or model.is_free else None,
        answers=len(sent),
    )


def transcript_of(history: Path) -> str:
    """The conversation as aider keeps it, in Markdown; without secrets."""
    try:
        text = history.read_text("utf-8", "replace")
    except OSError:
        return ""
    return cut_middle(redact(text.strip()), MAX_TRANSCRIPT_CHARACTERS)


def _events(log: Path) -> list[_Event]:
    try:
        lines = log.read_bytes().splitlines()
    except OSError:
        return []
    events = []
    for line in lines:
        try:
            events.append(msgspec.json.decode(line, type=_Event))
        except msgspec.DecodeError:  # the last line of one that was killed may be half
            continue
    return events
