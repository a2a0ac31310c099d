"""What `weft models list` says of the embedded models."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.llm.verdicts import Verdict


def embedded_verdicts() -> "tuple[Verdict, ...]":
    """One for each embedded model, whether it is there or could be fetched."""
    # Imported here: the other commands must not pay for it.
    from importlib.util import find_spec

    from weft.llm.local.catalogue import catalogue, megabytes
    from weft.llm.local.store import how_to_get, is_present
    from weft.llm.verdicts import Verdict

    has_runtime = find_spec("xllamacpp") is not None
    found = []
    for entry in catalogue():
        is_here = is_present(entry)
        about = f"{entry.license}, {megabytes(entry.memory)} of memory"
        if entry.makes == "embeddings":
            about += "; makes embeddings"
        why = f"here; {about}" if is_here else f"{how_to_get(entry)}; {about}"
        if not has_runtime:
            why = "needs an extra package: pip install 'weft[local]'"
        found.append(
            Verdict(kind="embedded", name=f"local:{entry.name}", is_usable=is_here and has_runtime, why=why)
        )
    return tuple(found)
