"""weft: the local engine on SQLite, as `bench.engine.local` measures it.

    python -m bench.peers.scripts.weft SHAPE SIZE

The time is that of storing the flow and running it to its end. `WEFT_SQLITE_SYNCHRONOUS` says whether each
commit waits for the disk (`full`) or only the checkpoints of the log do (`normal`, the default).
"""

import asyncio
import importlib.metadata
import json
import sys

from bench.engine.local import run_flow


def main() -> None:
    """Run the shape and size of the command line; print the figures and the version as JSON."""
    shape, size = sys.argv[1], int(sys.argv[2])
    # Asserts that the store has every task as completed.
    ran = asyncio.run(run_flow(shape, size))
    print(json.dumps({"seconds": ran.seconds, "tasks": size, "version": importlib.metadata.version("weft")}))


if __name__ == "__main__":
    main()
