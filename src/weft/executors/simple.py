"""The executors `noop`, `sleep`, `system_info` and `aggregate_results`."""

import asyncio
import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, get_args

from msgspec import Meta

from weft.aio import run_blocking
from weft.executors.protocol import Inputs, Work, permanent_failure, read_inputs, result_schema, schema_of
from weft.ids import TaskId
from weft.tasks.parsing.problems import nearest
from weft.tasks.record import ExecutorType, JsonObject


class Noop:
    """Completes immediately with an empty result."""

    id = "noop"
    type = ExecutorType.LOCAL
    summary = "Does nothing; accepts any inputs, returns an empty result."
    input_schema = None
    output_schema = result_schema()
    uses_dependencies = False

    async def execute(self, work: Work) -> JsonObject:
        return {}


REPORTS = 20
"""Number of progress reports of a long wait."""

SHORTEST_STEP_SECONDS = 1.0
"""At most one report per second, as each one is a write to the store."""


class SleepInputs(Inputs, frozen=True, kw_only=True):
    seconds: Annotated[float, Meta(ge=0, description="Seconds to wait.")]


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


Part = Literal["cpu", "memory", "disk", "platform"]


class SystemInfoInputs(Inputs, frozen=True, kw_only=True):
    parts: Annotated[tuple[Part, ...], Meta(min_length=1, description="Parts to describe; default: all.")] = (
        get_args(Part)
    )


class SystemInfo:
    """Describes the machine."""

    id = "system_info"
    type = ExecutorType.LOCAL
    summary = "Describes the worker's processors, memory, disk and platform."
    input_schema = schema_of(SystemInfoInputs)
    output_schema = result_schema(cpu="object", memory="object", disk="object", platform="object")
    uses_dependencies = False

    async def execute(self, work: Work) -> JsonObject:
        parts = read_inputs(SystemInfoInputs, work.inputs).parts
        # In a thread, because disk usage blocks while a network file system does not respond.
        return await run_blocking(lambda: {part: _READERS[part]() for part in parts}, name="weft-system_info")


def _cpu() -> JsonObject:
    load = os.getloadavg()
    return {
        "count": os.cpu_count(),
        "load_average": {"1m": load[0], "5m": load[1], "15m": load[2]},
    }


def _memory() -> JsonObject:
    page = os.sysconf("SC_PAGE_SIZE")
    total = page * os.sysconf("SC_PHYS_PAGES")
    return {"total_bytes": total, "available_bytes": _available_memory() or page * _free_pages()}


def _available_memory() -> int | None:
    """Return the bytes that Linux can allocate without swapping (more than is free); None if unknown."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _free_pages() -> int:
    # macOS does not have this name; report 0 there.
    return os.sysconf("SC_AVPHYS_PAGES") if "SC_AVPHYS_PAGES" in os.sysconf_names else 0


def _disk() -> JsonObject:
    usage = shutil.disk_usage(".")
    return {"total_bytes": usage.total, "used_bytes": usage.used, "free_bytes": usage.free}


def _platform() -> JsonObject:
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }


_READERS: dict[Part, Callable[[], JsonObject]] = {
    "cpu": _cpu,
    "memory": _memory,
    "disk": _disk,
    "platform": _platform,
}


class AggregateInputs(Inputs, frozen=True, kw_only=True):
    only: Annotated[
        list[str] | None,
        Meta(description="Dependencies to collect, by id or name; default: all that completed."),
    ] = None
    key_by: Annotated[
        Literal["id", "name"], Meta(description="Keys of the results; names must be unique.")
    ] = "id"


class AggregateResults:
    """Collects the results of the dependencies."""

    id = "aggregate_results"
    type = ExecutorType.LOCAL
    summary = "Collects the results of its dependencies, keyed by their ids or names."
    input_schema = schema_of(AggregateInputs)
    output_schema = result_schema(results="object", count="integer")

    async def execute(self, work: Work) -> JsonObject:
        inputs = read_inputs(AggregateInputs, work.inputs)
        chosen = list(work.dependencies) if inputs.only is None else _select(inputs.only, work)
        if inputs.key_by == "id":
            results: JsonObject = {task_id: work.dependencies[task_id] for task_id in chosen}
        else:
            results = _results_by_name(chosen, work)
        return {"results": results, "count": len(results)}


def _select(wanted: list[str], work: Work) -> list[TaskId]:
    """Return the ids of the wanted dependencies, in this order; a name selects all with that name."""
    chosen: dict[TaskId, None] = {}
    for name in wanted:
        found = [
            task_id
            for task_id in work.dependencies
            if name == task_id or name == work.dependency_names.get(task_id)
        ]
        if not found:
            known = [*work.dependency_names.values(), *work.dependencies]
            raise permanent_failure(f"no completed dependency has the name '{name}'{nearest(name, known)}")
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def _results_by_name(chosen: list[TaskId], work: Work) -> JsonObject:
    results: JsonObject = {}
    for task_id in chosen:
        name = work.dependency_names.get(task_id, task_id)
        if name in results:
            raise permanent_failure(f"several dependencies have the name '{name}': use key_by 'id'")
        results[name] = work.dependencies[task_id]
    return results
