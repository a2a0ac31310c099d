"""`sleep`: waits."""

import asyncio
from typing import Annotated

from msgspec import Meta

from weft.executors.inputs import Inputs, read_inputs, schema_of
from weft.executors.outputs import result_schema
from weft.executors.protocol import Work
from weft.tasks.record import ExecutorType, JsonObject

REPORTS = 20
"""How many steps of progress a long wait shows."""

SHORTEST_STEP_SECONDS = 1.0
"""A report is a write to the store: not more than one a second."""


class SleepInputs(Inputs, frozen=True, kw_only=True):
    seconds: Annotated[float, Meta(ge=0, description="How long to wait.")]


class Sleep:
    """Waits without holding a thread."""

    id = "sleep"
    type = ExecutorType.LOCAL
    summary = "Waits for `seconds`, reporting progress."
    input_schema = schema_of(SleepInputs)
    output_schema = result_schema(seconds="number")
    uses_dependencies = False

    async def execute(self, work: Work) -> JsonObject:
        seconds = read_inputs(SleepInputs, work.inputs).seconds
        loop = asyncio.get_running_loop()
        start = loop.time()
        step = max(seconds / REPORTS, SHORTEST_STEP_SECONDS)
        while (left := start + seconds - loop.time()) > step:
            await asyncio.sleep(step)
            await work.report(min((loop.time() - start) / seconds, 1.0))
        await asyncio.sleep(max(left, 0))
        return {"seconds": seconds}
