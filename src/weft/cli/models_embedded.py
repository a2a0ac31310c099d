"""What `weft models list` says of the embedded models."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.llm.verdicts import Verdict


def embedded_verdicts() -> "tuple[Verdict, ...]":
    """One for each embedded model, whether it is there or could be fetched."""
    # Imported here: the other commands must not pay for it.
    from importlib.util import find_spec

    from weft.llm.errors import ModelError
    from weft.llm.local.catalogue import catalogue, megabytes
    from weft.llm.local.models import settings_from
    from weft.llm.local.store import how_to_get, is_present
    from weft.llm.verdicts import Verdict

    problem = None if find_spec("xllamacpp") else "needs an extra package: pip install 'weft[local]'"
    try:
        settings_from()
    except ModelError as error:
        problem = error.message
    found = []
    for entry in catalogue():
        is_here = is_present(entry)
        about = f"{entry.license}, {megabytes(entry.memory)} of memory"
        if entry.makes == "embeddings":
            about += "; makes embeddings"
        why = problem or (f"here; {about}" if is_here else f"{how_to_get(entry)}; {about}")
        is_usable = is_here and problem is None
        found.append(Verdict(kind="embedded", name=f"local:{entry.name}", is_usable=is_usable, why=why))
    return tuple(found)
