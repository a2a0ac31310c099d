"""The program that holds a model in memory, in a process of its own; started by `runtime.py`.

Loading and freeing a model hold Python's lock for seconds, and a fault in native code ends a process: neither
may happen to the program that asks. It is run as a file and imports nothing of weft, so that it starts fast.

The first line of its input is what to load, as JSON; when the model is loaded, or cannot be, it writes one
line to the descriptor that its argument names: on its output anybody may print. Its input ends when the
program that started it does, however that happens: then this one ends too.
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
"""Tokens of a prompt that are read at once: a call that is called off stops between two batches."""

CACHE_MEBIBYTES = 512
"""For prompts that were read before; without a bound the runtime takes up to 8 GB."""


def main() -> None:
    """Load the model, serve it on its socket, and end when nobody is there any more."""
    # Ctrl-C is the program's that started us: it ends this one when it wants to.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(int(sys.argv[1]), "w")
    asked = json.loads(sys.stdin.buffer.readline() or "null")
    if asked is None:
        return
    try:
        server = load(asked)
    except RuntimeError as error:
        _tell(answers, f"it is no GGUF model, or memory does not suffice ({error})")
        return
    except Exception as error:  # a library is missing, or is another than we know
        _tell(answers, f"the runtime cannot be used: {type(error).__name__}: {error}")
        return
    # The runtime puts in handlers of its own when it loads.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        _tell(answers, None)
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
    params.n_predict = asked["max_tokens"]
    params.n_ctx = asked["context_window"]
    params.embedding = asked["is_embedding"]
    # What is embedded is read whole, in one batch.
    params.n_batch = params.n_ubatch = asked["context_window"] if params.embedding else TOKENS_AT_ONCE
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


def _tell(answers: TextIO, problem: str | None) -> None:
    """Say why the model is not loaded, or that it is."""
    with suppress(BrokenPipeError):  # nobody is there any more: the input will say so too
        answers.write(json.dumps({"problem": problem}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
