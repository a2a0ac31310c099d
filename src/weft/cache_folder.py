"""Where weft keeps what can be fetched again: embedded models, programs of others."""

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """`WEFT_CACHE`, else weft's folder in the user's cache folder."""
    if given := environment.get("WEFT_CACHE"):
        return Path(given)
    if given := environment.get("XDG_CACHE_HOME"):
        return Path(given) / "weft"
    return Path.home() / ".cache" / "weft"
