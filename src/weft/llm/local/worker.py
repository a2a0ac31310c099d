"""The program that holds a model in memory, in a process of its own; started by `runtime.py`.

Loading and freeing a model hold Python's lock for seconds, and a fault in native code ends a process: neither
may happen to the program that asks. It is run as a file and imports nothing of weft, so that it starts fast.

The first line of its input is what to load, as JSON; when the model is loaded it writes one line. Its input
ends when the program that started it does, however that happens: then this one ends too.
"""

import json
import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

BATCH = 64
"""Tokens of a prompt that are read at once: a call that is called off stops between two batches."""

CACHE_MEBIBYTES = 512
"""For prompts that were read before; without a bound the runtime takes up to 8 GB."""


def main() -> None:
    """Load the model, serve it on its socket, and end when nobody is there any more."""
    # Ctrl-C is the program's that started us: it ends this one when it wants to.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what native code prints is no answer of ours
    asked = json.loads(sys.stdin.buffer.readline() or "null")
    if asked is None:
        return
    try:
        server = load(asked)
    except (ImportError, RuntimeError) as error:
        _tell(out, {"error": str(error)})
        return
    # The runtime puts in handlers of its own when it loads.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        _tell(out, {"ready": True})
        sys.stdin.buffer.read()
    finally:
        shutil.rmtree(Path(asked["socket"]).parent, ignore_errors=True)
        os._exit(0 if server else 1)  # freeing the memory bit by bit takes longer than the system needs


def load(asked: dict[str, Any]) -> Any:
    """The runtime, with the model in memory."""
    # Read when the library is loaded: without it threads that wait burn the cores that others need.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = asked["path"]
    params.n_ctx = asked["context_window"]
    params.embedding = asked["is_embedding"]
    # What is embedded is read whole, in one batch.
    params.n_batch = params.n_ubatch = asked["context_window"] if params.embedding else BATCH
    params.n_parallel = 1
    threads = asked["threads"] or os.cpu_count() or 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_ram_mib = CACHE_MEBIBYTES
    params.fit_params = params.warmup = params.ui = False
    params.hostnames = [asked["socket"]]
    params.api_keys = [asked["key"]]
    params.sse_ping_interval = -1
    params.verbosity = -1
    return xllamacpp.Server(params)


def _tell(out: TextIO, answer: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # nobody is there any more: the input will say so too
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
