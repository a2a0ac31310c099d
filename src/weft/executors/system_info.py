"""`system_info`: what machine a worker runs on. Nothing of its environment, users or network."""

import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from weft.executors.inputs import Inputs, read_inputs, schema_of
from weft.executors.outputs import result_schema
from weft.executors.protocol import Work
from weft.tasks.record import ExecutorType, JsonObject
from weft.threads import run_blocking

Part = Literal["cpu", "memory", "disk", "platform"]


class SystemInfoInputs(Inputs, frozen=True, kw_only=True):
    parts: Annotated[
        tuple[Part, ...], Meta(min_length=1, description="What to look at; default: everything.")
    ] = ("cpu", "memory", "disk", "platform")


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
        # In a thread: asking for the disk blocks while a network file system does not answer.
        return await run_blocking(lambda: {part: _LOOKS[part]() for part in parts}, name="weft-system_info")


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
    """What Linux could hand out without swapping, which free pages alone understate."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _free_pages() -> int:
    # macOS has no such name; then nothing is known to be free.
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


_LOOKS: dict[Part, Callable[[], JsonObject]] = {
    "cpu": _cpu,
    "memory": _memory,
    "disk": _disk,
    "platform": _platform,
}
