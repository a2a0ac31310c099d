"""How many examples a property test tries."""

from hypothesis import settings

_ORDINARY = 100
"""What `max_examples` is where no profile says more or less."""


def examples(number: int) -> int:
    """That many, times what the profile in use makes of it; `tests/conftest.py` has the profiles."""
    return max(1, number * settings().max_examples // _ORDINARY)
