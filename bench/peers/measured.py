"""What the scripts share: reading the shape and size, and printing the one line that `main` reads.

Nothing but the standard library is imported here, as every engine's environment must be able to.
"""

import importlib.metadata
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.engine.graphs import SHAPES, Graph


@dataclass(frozen=True)
class Measured:
    """One run of a graph."""

    seconds: float
    """From the start of the run to its end."""
    tasks: int
    """The tasks that the engine's own database says are done."""
    recorded_seconds: float | None = None
    """From the start until all are in the database, of an engine that ends a run before that."""


def report(package: str, run: Callable[[Graph, Path], Measured]) -> None:
    """Run the shape and size of the command line; print the figures and the version as one line of JSON."""
    shape, size = sys.argv[1], int(sys.argv[2])
    # An engine's server may still be writing there when the script ends.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        measured = run(SHAPES[shape](size), Path(folder))
    assert measured.tasks == size, f"{package}: {measured.tasks} of {size} tasks are recorded as done"
    print(json.dumps({**asdict(measured), "version": importlib.metadata.version(package)}))
