"""An attempt while it runs here: it ends, is called off, or is abandoned; whichever, once."""

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context

from weft.aio import abandon
from weft.engine.attempt import Attempts
from weft.executors.protocol import ExecutionFailed, Report, Rests
from weft.store.errors import StoreUnusable
from weft.store.protocol import AttemptResult, Claimed, Suspension
from weft.tasks.policies import timeout_seconds
from weft.tasks.record import method_of
from weft.tasks.states import Completed

log = logging.getLogger(__name__)

CANCELLED_INSIDE = (
    "the executor was cancelled from inside: it raised CancelledError, or waited for what was cancelled"
)

OnEnd = Callable[["RunningAttempt", AttemptResult | Suspension | None], None]


class RunningAttempt:
    """An attempt in an asyncio task of its own; `on_end` is called once, with its ending if it has one.

    An executor is cancelled when the attempt is called off, and may ignore that. So the end of the attempt is
    not the end of the asyncio task: after the time that the executor has to let go, the attempt ends without.
    """

    __slots__ = (
        "_alarm",
        "_attempts",
        "_claimed",
        "_is_called_off",
        "_is_over",
        "_on_end",
        "_reason",
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
        self._is_called_off = False
        self._reason: Exception | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._work = asyncio.create_task(self._run(report), context=context)

    def cancel_attempt(self, reason: Exception | None = None) -> None:
        """Cancel the executor: the attempt fails for the reason or, without one, has no ending of its own."""
        if self._is_over or self._is_called_off:
            return
        self._set_alarm(self._attempts.let_go_seconds(self._claimed.task), self._abandon)
        self._is_called_off, self._reason = True, reason
        # One that is cancelled before its first step runs no code of its own.
        self._work.add_done_callback(lambda _: self._end(None))
        self._work.cancel()

    async def _run(self, report: Report) -> None:
        ending: AttemptResult | Suspension | None = None
        try:
            limit = timeout_seconds(self._claimed.task)
            if limit is not None:
                self._set_alarm(
                    limit, lambda: self.cancel_attempt(ExecutionFailed(f"timed out after {limit:g} s"))
                )
            ending = self._attempts.completed(
                self._claimed, await self._attempts.result(self._claimed, report)
            )
        except StoreUnusable as error:
            self._attempts.on_store_unusable(error)
        except Rests as rests:
            ending = self._attempts.rested(self._claimed, rests)
        except asyncio.CancelledError:
            # When it was not us, it came from inside. Nobody else has a hold of this asyncio task.
            ending = self._attempts.failed(self._claimed, ExecutionFailed(CANCELLED_INSIDE))
        except BaseException as error:
            # Also SystemExit and KeyboardInterrupt: out of a task of asyncio they would end the event loop.
            ending = self._attempts.failed(self._claimed, error)
        finally:
            # Here and not in the callback: that would cost a chain of tasks a turn of the event loop each.
            self._end(ending)

    def _end(self, ending: AttemptResult | Suspension | None) -> None:
        """Let go of the attempt, however it ended; the second time does nothing."""
        if self._is_over:
            return
        self._is_over = True
        if self._alarm is not None:
            self._alarm.cancel()
        if self._reason is not None:
            ending = self._attempts.failed(self._claimed, self._reason)
        elif self._is_called_off and not _is_completed(ending):
            ending = None  # it failed because it was called off
        self._on_end(self, ending)

    def _abandon(self) -> None:
        log.warning(
            "executor '%s' does not end when it is cancelled; task %s, attempt %s, is abandoned",
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

    def _set_alarm(self, seconds: float, then: Callable[[], None]) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_later(seconds, then)


def _is_completed(ending: AttemptResult | Suspension | None) -> bool:
    return isinstance(ending, AttemptResult) and isinstance(ending.outcome, Completed)
