"""What `weft models list` says of the embedded models."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.llm.verdicts import Verdict


def embedded_verdicts() -> "tuple[Verdict, ...]":
    """One for each embedded model, whether it is there or could be fetched."""
    return ()
