"""CPU time that a request to a provider takes here, and how much of it is weft's own part.

    .venv/bin/python -m bench.provider_requests

The provider is a server on the loopback address in a thread of its own, whose time is not counted.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tests.model_payloads import MODEL_OF, a_payload, served_models
from tests.model_server import model_server

ROUNDS = 12
REQUESTS = 50


async def cpu_milliseconds(request: Callable[[], Awaitable[object]]) -> float:
    """What one request takes in this thread."""
    started = time.thread_time()
    for _ in range(REQUESTS):
        await request()
    return (time.thread_time() - started) / REQUESTS * 1_000


async def main() -> None:
    with model_server() as server:
        models = served_models(server)
        model: Any = await models.find(MODEL_OF["openai"])
        # Imported here: it is there once a model is.
        from weft.llm.providers.messages import messages_of, parameters_of

        payload = a_payload("Say hello. " * 20)
        parameters = parameters_of(payload, held=None, is_json_mode=False, says_schema=False)
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(await cpu_milliseconds(lambda: model.request(payload)))
            theirs.append(
                await cpu_milliseconds(lambda: model._asked.request(messages_of(payload), {}, parameters))  # noqa: SLF001
            )
        await models.close()
    print(f"request through weft  {min(ours):.2f} ms of CPU")
    print(f"through pydantic-ai   {min(theirs):.2f} ms of CPU")
    print(f"weft's own part       {min(ours) - min(theirs):.2f} ms of CPU")


if __name__ == "__main__":
    asyncio.run(main())
