"""`noop`: does nothing. For tasks that only group or wait for others, and for measuring the engine."""

from weft.executors.protocol import Work
from weft.tasks.json_schema import DRAFT_07
from weft.tasks.record import ExecutorType, JsonObject

_ANYTHING: JsonObject = {"$schema": DRAFT_07, "type": "object"}


class Noop:
    """Completes at once with an empty result."""

    id = "noop"
    type = ExecutorType.LOCAL
    summary = "Does nothing; takes any inputs, gives an empty result."
    input_schema = _ANYTHING

    async def execute(self, work: Work) -> JsonObject:
        return {}
