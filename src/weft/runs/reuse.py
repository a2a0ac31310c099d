"""Reuse results of other runs: digests of requests, and the search for an equal one."""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from weft.evaluator.effects import ModelCall, Turn
from weft.ids import TaskId
from weft.llm.payload import HandlerPayload, Message
from weft.runs.fork import Fork
from weft.runs.journal import Journal
from weft.secrets.registry import redact_encoded
from weft.store.protocol import TaskStore
from weft.tasks.record import Task


class ReusableResults:
    """Those of the same owner that a run may have, and has not had yet.

    Each is given once in a run: one that asks the same question three times wants three answers, and when it
    is run again, those three.
    """

    def __init__(self, store: TaskStore, journal: Journal, fork: Fork | None, *, is_reusing: bool) -> None:
        self._store = store
        self._journal = journal
        self._fork = fork
        self._is_reusing = is_reusing
        self._given = journal.past.sources
        """What steps of this run that are known already are links of."""
        self._left: dict[str, list[TaskId]] = {}
        """By digest, the last first. Kept also when there are none: a loop that asks the same looks once."""

        self._looking: dict[str, asyncio.Event] = {}

    async def find(self, reuse_hash: str | None) -> Task | None:
        """The next step that has answered the same; None: there is none, none is left, or none is wanted."""
        if reuse_hash is None or not self._is_reusing:
            return None
        while reuse_hash not in self._left:
            looking = self._looking.get(reuse_hash)
            if looking is None:
                await self._look(reuse_hash)
            else:
                await looking.wait()
        left = self._left[reuse_hash]
        while left:
            step = await self._store.find_step(left.pop())
            if step is not None:
                return step
        return None

    async def _look(self, reuse_hash: str) -> None:
        """Look once: who asks the same meanwhile waits, so that the first to ask gets the first answer."""
        looking = self._looking[reuse_hash] = asyncio.Event()
        try:
            found = await self._store.reusable_steps(
                reuse_hash, user_id=self._journal.user_id, besides=self._journal.tree_id
            )
            self._left[reuse_hash] = [one for one in reversed(found) if self._may_give(one)]
        finally:
            del self._looking[reuse_hash]
            looking.set()

    def _may_give(self, task_id: TaskId) -> bool:
        """Not what was given before, nor what the run has done that this one was forked from: what counts of
        that is found by its key."""
        return task_id not in self._given and not (
            self._fork is not None and self._fork.is_of_old_run(task_id)
        )


DIGEST_BYTES = 20


def _named(value: Any) -> str:
    """Of what is no data (a function that is in scope) only the kind: it is part of the program."""
    return type(value).__name__


_encode = msgspec.json.Encoder(enc_hook=_named, order="deterministic").encode


def digest(*parts: Any) -> str:
    """A short text that is the same for the same parts, and for no others.

    A secret counts by its name: its value may be another when a run goes on, and no hash of it is stored, for
    that lets a guess be tried.
    """
    return _hash(redact_encoded(_encode(parts)))


def reuse_digest(*parts: Any) -> str | None:
    """The same, for what other runs find an answer by; None when it holds a secret: who asks with another one
    asks for something else."""
    encoded = _encode(parts)
    return _hash(encoded) if redact_encoded(encoded) is encoded else None


def _hash(encoded: bytes) -> str:
    return hashlib.blake2b(encoded, digest_size=DIGEST_BYTES).hexdigest()


def request_digest(request: Any) -> str:
    """Of what a step asks for: on replay it must be the same."""
    if request.__class__ is ModelCall and request.conversation:
        # When an answer came is not what it says.
        turns = tuple(Turn(turn.prompt, turn.answer) for turn in request.conversation)
        request = msgspec.structs.replace(request, conversation=turns)
    return digest(type(request).__name__, request)


def turn_digest(said: Sequence[Message]) -> str:
    """Of what was said in a session so far: on replay it must be the same. Which model is asked, and how, may
    be another when a run goes on."""
    return digest(_timeless(said))


def payload_digest(payload: HandlerPayload, settings_digest: str) -> str | None:
    """Of everything a model is sent, which model, and its settings: whoever sends the same may have the same
    answer. None: it holds a secret.

    Not of times, of what is used up so far, of how long an answer may be for a budget's sake, and of the name
    of the template: none of them makes another question.
    """
    metadata = payload.metadata
    return reuse_digest(
        payload.system_prompt,
        _timeless(payload.messages),
        payload.context,
        payload.tools,
        payload.output_schema,
        metadata.model,
        metadata.temperature,
        settings_digest,
    )


def _timeless(messages: Sequence[Message]) -> list[Message]:
    return [msgspec.structs.replace(message, timestamp=None) for message in messages]
