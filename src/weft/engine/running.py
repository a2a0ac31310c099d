"""An attempt that runs in this process: it ends, is cancelled, or is abandoned, exactly once."""

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context

from weft.aio import abandon
from weft.engine.attempt import Attempts
from weft.executors.protocol import ExecutionFailed, Report, Suspend
from weft.store.errors import StoreUnusable
from weft.store.protocol import AttemptResult, Claimed, Suspension
from weft.tasks.policies import timeout_seconds
from weft.tasks.record import method_of
from weft.tasks.states import Completed

log = logging.getLogger(__name__)

CANCELLED_INSIDE = (
    "the executor was cancelled from inside: it raised CancelledError, or awaited a cancelled task"
)

OnEnd = Callable[["RunningAttempt", AttemptResult | Suspension | None], None]
"""Receives the attempt and its outcome; None if it was cancelled or abandoned, or the store is unusable."""


class RunningAttempt:
    """An attempt in its own asyncio task; `on_end` is called once, with the outcome if there is one.

    Cancelling the attempt cancels the executor, which may ignore that. So the attempt does not wait for the
    asyncio task for ever: after the executor's grace time it is abandoned, and ends without an outcome.
    """

    __slots__ = (
        "_attempts",
        "_claimed",
        "_is_cancelled",
        "_is_over",
        "_on_end",
        "_reason",
        "_timer",
        "_work",
        "claim",
        "method",
    )

    def __init__(
        self,
        claimed: Claimed,
        attempts: Attempts,
        report: Report,
        on_end: OnEnd,
        *,
        context: Context | None = None,
    ) -> None:
        self.claim = claimed.claim
        self.method = method_of(claimed.task)
        self._claimed = claimed
        self._attempts = attempts
        self._on_end = on_end
        self._is_over = False
        self._is_cancelled = False
        self._reason: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._work = asyncio.create_task(self._run(report), context=context)

    def cancel_attempt(self, reason: Exception | None = None) -> None:
        """Cancel the executor: the attempt fails with the reason or, without one, has no outcome."""
        if self._is_over or self._is_cancelled:
            return
        self._set_timer(self._attempts.cancel_grace_seconds(self._claimed.task), self._abandon)
        self._is_cancelled, self._reason = True, reason
        # A task cancelled before its first step never runs, so `_run` cannot end the attempt.
        self._work.add_done_callback(lambda _: self._end(None))
        self._work.cancel()

    async def _run(self, report: Report) -> None:
        ending: AttemptResult | Suspension | None = None
        try:
            limit = timeout_seconds(self._claimed.task)
            if limit is not None:
                self._set_timer(
                    limit, lambda: self.cancel_attempt(ExecutionFailed(f"timed out after {limit:g} s"))
                )
            ending = self._attempts.completed(
                self._claimed, await self._attempts.result(self._claimed, report)
            )
        except StoreUnusable as error:
            self._attempts.on_store_unusable(error)
        except Suspend as suspension:
            ending = self._attempts.suspended(self._claimed, suspension)
        except asyncio.CancelledError:
            # If `cancel_attempt` did not cancel it, the executor did: nobody else has this asyncio task.
            ending = self._attempts.failed(self._claimed, ExecutionFailed(CANCELLED_INSIDE))
        except BaseException as error:
            # Also SystemExit and KeyboardInterrupt: leaving an asyncio task, they would end the event loop.
            ending = self._attempts.failed(self._claimed, error)
        finally:
            # Here, not in a callback: that would cost each task of a chain an iteration of the event loop.
            self._end(ending)

    def _end(self, ending: AttemptResult | Suspension | None) -> None:
        """End the attempt; a second call does nothing."""
        if self._is_over:
            return
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._reason is not None:
            ending = self._attempts.failed(self._claimed, self._reason)
        elif self._is_cancelled and not _is_completed(ending):
            ending = None  # the attempt failed because it was cancelled
        self._on_end(self, ending)

    def _abandon(self) -> None:
        log.warning(
            "executor '%s' ignores its cancellation; task %s, attempt %s, is abandoned",
            self.method,
            self.claim.task_id,
            self.claim.attempt,
            extra={
                "action": "attempt_abandoned",
                "task_id": self.claim.task_id,
                "attempt": self.claim.attempt,
            },
        )
        abandon(self._work)
        self._end(None)

    def _set_timer(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, then)


def _is_completed(ending: AttemptResult | Suspension | None) -> bool:
    return isinstance(ending, AttemptResult) and isinstance(ending.outcome, Completed)
