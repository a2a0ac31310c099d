"""The specification and the data that lie beside the repository, for the tests that read them."""

from pathlib import Path

import pytest

_SHARED = Path(__file__).parents[1].parent / "shared"


def shared(*parts: str) -> Path:
    """Return a file or folder beside the repository; skip the test, or the module, if it is missing."""
    path = _SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is not there", allow_module_level=True)
    return path
