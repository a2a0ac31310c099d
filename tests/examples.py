"""How many examples a property test tries."""

from hypothesis import settings

_ORDINARY = 100
"""What `max_examples` is where no profile says more or less."""


def examples(number: int) -> int:
    """Scale the number by the profile in use; `tests/conftest.py` has the profiles."""
    return max(1, number * settings().max_examples // _ORDINARY)
