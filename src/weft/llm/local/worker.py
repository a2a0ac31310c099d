"""The process that holds an embedded model in memory, started by `runtime.py`. It claims no tasks.

Loading and freeing a model hold the GIL for seconds, and a fault in native code ends the process: neither may
happen to the main process. The worker runs as a script and imports nothing of weft, so that it starts fast.

The first line of its stdin is a JSON object with the path of the model and the options. When the model is
loaded or cannot be loaded, the worker writes one line to the descriptor given as its argument; it does not
use stdout, where native code may print.
Its stdin closes when the process that started it ends, however that happens; then the worker ends too.
"""

import json
import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

TOKENS_AT_ONCE = 64
"""Batch size of prompt tokens: a cancelled request stops between two batches."""

CACHE_MEBIBYTES = 512
"""Size of the prompt cache; without a limit the runtime takes up to 8 GB."""


def main() -> None:
    """Load the model, serve it on its socket, and exit when stdin is closed."""
    # Ctrl-C is for the process that started this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    report_pipe = os.fdopen(int(sys.argv[1]), "w")
    options = json.loads(sys.stdin.buffer.readline() or "null")
    if options is None:
        return
    try:
        server = load(options)
    except RuntimeError as error:
        _report(report_pipe, f"it is not a GGUF model, or there is not enough memory ({error})")
        return
    except Exception as error:  # for example a library that is missing or has another version
        _report(report_pipe, f"the runtime cannot be used: {type(error).__name__}: {error}")
        return
    # The runtime installs its own signal handlers when it loads.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        _report(report_pipe, None)
        sys.stdin.buffer.read()
    finally:
        shutil.rmtree(Path(options["socket"]).parent, ignore_errors=True)
        os._exit(0 if server else 1)  # the system frees the memory faster than the runtime does


def load(options: dict[str, Any]) -> Any:
    """Load the model and return the runtime's server."""
    # Read when the library is loaded. Without this setting waiting threads spin and take CPU from others.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = options["path"]
    params.n_predict = options["max_tokens"]
    params.n_ctx = options["context_window"]
    params.embedding = options["is_embedding"]
    # A text to embed must be processed in one batch.
    params.n_batch = params.n_ubatch = options["context_window"] if params.embedding else TOKENS_AT_ONCE
    params.n_parallel = 1
    threads = options["threads"] or os.cpu_count() or 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_ram_mib = CACHE_MEBIBYTES
    params.fit_params = params.warmup = params.ui = False
    params.hostnames = [options["socket"]]
    params.api_keys = [options["key"]]
    params.sse_ping_interval = -1
    params.verbosity = -1
    return xllamacpp.Server(params)


def _report(report_pipe: TextIO, problem: str | None) -> None:
    """Write to the pipe why the model could not be loaded; None means that it is loaded."""
    with suppress(BrokenPipeError):  # the parent process is gone; stdin will be closed too
        report_pipe.write(json.dumps({"problem": problem}) + "\n")
        report_pipe.flush()


if __name__ == "__main__":
    main()
