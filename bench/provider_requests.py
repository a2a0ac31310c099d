"""CPU time of a request to a provider, through weft and through the client library that weft uses.

The provider is a server on the loopback address in a thread of its own, whose time is not counted. The best
of the rounds, by turns.

    python -m bench.provider_requests [--size REQUESTS]
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from tests.model_payloads import MODEL_OF, a_payload, served_models
from tests.model_server import model_server

from bench.measure import Benchmark, Figure


async def cpu_milliseconds(request: Callable[[], Awaitable[object]], times: int) -> float:
    """Return what one request takes in this thread."""
    started = time.thread_time()
    for _ in range(times):
        await request()
    return (time.thread_time() - started) / times * 1_000


async def compare(size: int, rounds: int) -> tuple[float, float]:
    """Return the milliseconds of a request through weft, and through the library alone."""
    with model_server() as server:
        models = served_models(server)
        model: Any = await models.find(MODEL_OF["openai"])
        # Imported here: it is there once a model is.
        from weft.llm.providers.messages import messages_of, parameters_of

        payload = a_payload("Say hello. " * 20)
        parameters = parameters_of(payload, held=None, is_json_mode=False, says_schema=False)

        def theirs() -> Awaitable[object]:
            request: Awaitable[object] = model._client_model.request(messages_of(payload), {}, parameters)  # noqa: SLF001
            return request

        await model.request(payload)  # the first one opens the connection
        runs = [
            (
                await cpu_milliseconds(lambda: model.request(payload), size),
                await cpu_milliseconds(theirs, size),
            )
            for _ in range(rounds)
        ]
        await models.close()
    through_weft, alone = (min(run[part] for run in runs) for part in (0, 1))
    return through_weft, alone


def measure(options: argparse.Namespace) -> Iterator[Figure]:
    """Yield the ratio of the two."""
    ours, theirs = asyncio.run(compare(options.size, options.rounds))
    yield Figure(
        "CPU of a request through weft",
        ours / theirs,
        "x",
        "the same request through pydantic-ai",
        details=f"{ours:.2f} ms to {theirs:.2f} ms",
    )


BENCHMARK = Benchmark("Requests to providers", "requests", smallest=1, full=50, measure=measure, rounds=12)

if __name__ == "__main__":
    BENCHMARK.run()
