"""Reuse of results of other runs: digests of requests, the lookup of equal ones, and forks."""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any, Self

import msgspec

from weft.evaluator.effects import ModelCall, Turn
from weft.ids import TaskId, is_task_id
from weft.llm.payload import HandlerPayload, Message
from weft.runs.journal import Journal
from weft.secrets.registry import redact_encoded
from weft.store.models import StoredStep
from weft.store.protocol import TaskStore
from weft.tasks.operations.fork import FORK
from weft.tasks.record import Origin, Status, Task
from weft.tasks.steps import program_position_of_key, step_fields


def may_reuse(task: Task) -> bool:
    """Return whether a run may reuse results of other runs.

    A copy and a firing of a schedule must do their work again, unless `params.reuse` is true. A fork is a
    copy too, but continues a run.
    """
    params = task.params or {}
    reuse, fork = params.get("reuse"), params.get(FORK)
    if isinstance(reuse, bool):
        return reuse
    is_fork = isinstance(fork, dict) and fork.get("of") == task.original_task_id
    return task.origin_type is not Origin.COPY or is_fork


class Fork:
    """The steps of the original run; those before the fork point are taken over."""

    def __init__(self, steps: Sequence[StoredStep], from_key: str, *, is_reusing: bool = True) -> None:
        position = program_position_of_key(from_key)
        self._before = {step.key: step for step in steps if program_position_of_key(step.key) < position}
        self.original_ids = frozenset(step.task.id for step in steps)
        self.is_reusing = is_reusing

    @classmethod
    async def open(cls, store: TaskStore, task: Task) -> Self | None:
        """Return the fork that the task's `params` describe; None if the task is not a fork."""
        fork = (task.params or {}).get(FORK)
        if not isinstance(fork, dict) or not is_task_id(fork.get("of")):
            return None
        # A submitted record can name any run: only steps of the same owner are used.
        found = await store.steps_of(TaskId(fork["of"]))
        steps = [step for step in found if step.task.user_id == task.user_id]
        return cls(steps, str(fork.get("from")), is_reusing=fork.get("reuse") is not False)

    def find(self, key: str, input_hash: str) -> Task | None:
        """Return the step of the original run with this key and request, if it can be taken over."""
        step = self._before.get(key)
        if step is None or step.input_hash != input_hash:
            return None
        fields = step_fields(step.task)
        has_failed = step.task.status is Status.FAILED and fields.failure and not fields.ended_run
        return step.task if step.task.status is Status.COMPLETED or has_failed else None


class ReusableResults:
    """Results of other runs of the same owner that this run can reuse.

    Each result is given once per run: a run that makes the same request three times wants three responses,
    and the same three when it is run again.
    """

    def __init__(self, store: TaskStore, journal: Journal, fork: Fork | None, *, is_reusing: bool) -> None:
        self._store = store
        self._journal = journal
        self._is_reusing = is_reusing
        self._excluded = journal.past.sources | (frozenset() if fork is None else fork.original_ids)
        """Steps that recorded steps already link to, and those of a fork's original run, found by key."""
        self._candidates: dict[str, list[TaskId]] = {}
        """Candidates by digest, last first. Empty lists are kept: a loop then queries the store once."""

        self._queries: dict[str, asyncio.Event] = {}

    async def find(self, reuse_hash: str | None) -> Task | None:
        """Return the next step of another run with an equal request; None without one, or if reuse is off."""
        if reuse_hash is None or not self._is_reusing:
            return None
        while reuse_hash not in self._candidates:
            looking = self._queries.get(reuse_hash)
            if looking is None:
                await self._query(reuse_hash)
            else:
                await looking.wait()
        left = self._candidates[reuse_hash]
        while left:
            step = await self._store.find_step(left.pop())
            if step is not None:
                return step
        return None

    async def _query(self, reuse_hash: str) -> None:
        """Query the store once per digest; other callers wait, so that the first gets the first result."""
        looking = self._queries[reuse_hash] = asyncio.Event()
        try:
            found = await self._store.reusable_steps(
                reuse_hash, user_id=self._journal.run.user_id, besides=self._journal.run.task_tree_id
            )
            self._candidates[reuse_hash] = [one for one in reversed(found) if one not in self._excluded]
        finally:
            del self._queries[reuse_hash]
            looking.set()


DIGEST_BYTES = 20


# A value that is not JSON, such as a function, which is part of the program, counts by its type.
_encode = msgspec.json.Encoder(enc_hook=lambda value: type(value).__name__, order="deterministic").encode


def digest(*parts: Any) -> str:
    """Return a digest of the parts; secrets count by name.

    The value of a secret may differ when a run is resumed, and no hash of it is stored: a hash would allow
    guesses to be verified.
    """
    return _hash(redact_encoded(_encode(parts)))


def reuse_digest(*parts: Any) -> str | None:
    """Return a digest for reuse by other runs; None if the parts hold a secret, which may differ there."""
    encoded = _encode(parts)
    return _hash(encoded) if redact_encoded(encoded) is encoded else None


def _hash(encoded: bytes) -> str:
    return hashlib.blake2b(encoded, digest_size=DIGEST_BYTES).hexdigest()


def request_digest(request: Any) -> str:
    """Return the digest of a step's request; replay compares it."""
    if request.__class__ is ModelCall and request.conversation:
        # Timestamps of responses must not count.
        turns = tuple(Turn(turn.prompt, turn.answer) for turn in request.conversation)
        request = msgspec.structs.replace(request, conversation=turns)
    return digest(type(request).__name__, request)


def turn_digest(messages: Sequence[Message]) -> str:
    """Return the digest of a session's messages so far; replay compares it.

    The model and its settings do not count: they may change when a run is resumed.
    """
    return digest(_timeless(messages))


def payload_digest(payload: HandlerPayload, settings_digest: str) -> str | None:
    """Return the digest of a complete model request, for reuse; None if it holds a secret.

    Timestamps, usage so far, the response length allowed by a budget, and the name of the template do not
    count: they do not change what is asked of the model.
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
