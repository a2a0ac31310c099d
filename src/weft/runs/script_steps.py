"""Scripts that end badly: a failure in the record, and for the program how the script ended, to judge."""

from collections.abc import Awaitable, Callable

import msgspec

from weft.evaluator.effects import ScriptOutcome, ScriptRun
from weft.evaluator.errors import TaskFailed
from weft.evaluator.known import Known, then
from weft.evaluator.operators.script import script_facts, script_failure
from weft.evaluator.results import TaskFailure
from weft.secrets.registry import is_any, redact_json
from weft.tasks.record import JsonObject


def outcome_json(outcome: ScriptOutcome, run: ScriptRun) -> JsonObject:
    """The result of a script that ended well; raises TaskFailed for another."""
    if is_any():  # the program must be told what is stored: a replay knows nothing else
        outcome = msgspec.convert(redact_json(msgspec.to_builtins(outcome)), ScriptOutcome)
    failure = script_failure(outcome, run.timeout_seconds)
    if failure is not None:
        # The output is in the details, where `failure_of` finds it.
        raise TaskFailed(msgspec.structs.replace(failure, content=None))
    facts: JsonObject = msgspec.to_builtins(outcome)
    return facts


def ending(ask: Callable[[], Awaitable[JsonObject]]) -> Awaitable[ScriptOutcome]:
    """How the script ended, well or badly; raises TaskFailed when it could not be run at all."""
    try:
        asked = ask()
    except TaskFailed as error:  # it is known
        return Known(_outcome_of(error))
    return then(asked, lambda found: msgspec.convert(found, ScriptOutcome), rescue=_outcome_of)


def _outcome_of(error: TaskFailed) -> ScriptOutcome:
    """The outcome that a failure was made of; raises the failure if it was made of none."""
    failure = error.error
    details = (failure.details or {}) if isinstance(failure, TaskFailure) else {}
    if not details.keys() >= _FACTS:
        raise error
    return ScriptOutcome(
        stdout=details["script_stdout"],
        stderr=details["script_stderr"],
        exit_code=details["script_exit_code"],
        is_timed_out=isinstance(failure, TaskFailure) and failure.reason == "execution_timeout",
    )


_FACTS = frozenset(script_facts(ScriptOutcome("", "", 0)))
