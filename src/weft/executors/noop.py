"""`noop`: does nothing. For tasks that only group or wait for others, and for measuring the engine."""

from weft.executors.outputs import result_schema
from weft.executors.protocol import Work
from weft.tasks.record import ExecutorType, JsonObject


class Noop:
    """Completes at once with an empty result."""

    id = "noop"
    type = ExecutorType.LOCAL
    summary = "Does nothing; takes any inputs, gives an empty result."
    input_schema = None
    output_schema = result_schema()
    uses_dependencies = False

    async def execute(self, work: Work) -> JsonObject:
        return {}
