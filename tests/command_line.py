"""The `weft` command as a person runs it: a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def weft(*arguments: str | Path, db: str, stdin: str | bytes = b"", **environment: str) -> Ran:
    """Run `weft` on a store."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    done = subprocess.run(
        [sys.executable, "-m", "weft", *map(str, arguments)],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        env={**clean, "WEFT_DB": db, **environment},
        check=False,
        timeout=120,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
