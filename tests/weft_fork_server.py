"""The process whose forks run `weft`; see `tests/weft_forks.py`.

It reads requests from the socket whose number it is given: to start a fork, whose streams come along, or to
say how one ended, if it has. It answers each with a number, a pid or how it ended, until the tests close the
socket.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import sys
import threading
from typing import Any

ROOMS = ("cli", "language", "evaluator", "store", "engine", "executors", "memory", "tools", "llm.providers")
NEIGHBOURS = (
    "weft.app.app",
    "weft.effects.local",
    "weft.effects.memory",
    "weft.effects.tools",
    "weft.llm.models",
)
MODELS = ("pydantic_ai.direct", "pydantic_ai.models.openai")

_REQUEST_BYTES = 1 << 20


def import_weft() -> None:
    """Import what commands use, which they do only when they need it."""
    for room in ROOMS:
        package = importlib.import_module(f"weft.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"weft.{room}."):
            importlib.import_module(module.name)
    for name in (*NEIGHBOURS, *MODELS):
        importlib.import_module(name)


def serve(requests: socket.socket) -> bool:
    """Answer requests; true in a fork that has to run a command, false when there are no more requests."""
    while True:
        text, streams, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 3)
        if not text:
            return False
        request = json.loads(text)
        if "wait" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
        elif "poll" in request:
            ended, status = os.waitpid(request["poll"], os.WNOHANG)
            answer = status if ended else -1
        else:
            # A fork has one thread only: any other would be missing in it, with the locks it holds.
            assert threading.active_count() == 1
            ready, is_ready = os.pipe()
            answer = os.fork()
            if answer == 0:
                requests.close()
                os.close(ready)
                become(request, streams)
                os.close(is_ready)
                return True
            for stream in (*streams, is_ready):
                os.close(stream)
            os.read(ready, 1)  # ends when the fork leads its session: only then can its group be killed
            os.close(ready)
        requests.send(str(answer).encode())


def become(request: dict[str, Any], streams: list[int]) -> None:
    """Take on what a new process of `python -m weft` has."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    importlib.reload(sys.modules["weft.fault_points"])  # it has read the environment that was
    sys.path.insert(0, request["cwd"])
    sys.argv[1:] = request["arguments"]


def run_weft() -> int:
    """Run weft, and return the exit code and print the errors as Python would."""
    try:
        runpy.run_module("weft", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except Exception:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def leave(code: int) -> None:
    """End as Python does, but take nothing apart: that would take longer than the command."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError):
        code = 120  # as Python does when nobody reads what it has written
    os._exit(code & 0xFF)


def main() -> None:
    sys.path.pop(0)  # the folder of this file: a new process does not look for modules here
    import_weft()
    gc.collect()
    gc.freeze()  # what is here stays, and its pages are shared by all forks
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        is_fork = serve(requests)
    if is_fork:
        leave(run_weft())


if __name__ == "__main__":
    main()
