"""The limits of providers, shared by all who ask them in this process."""

import threading

from weft.llm.providers.access import Access
from weft.llm.providers.limits import ProviderLimits
from weft.llm.providers.timing import Timing

_known = threading.Lock()
_limits: dict[tuple[Access, Timing], ProviderLimits] = {}
"""They stay until the process ends: what was asked in the last minute counts for whoever asks next."""


def limits_of(access: Access, timing: Timing) -> ProviderLimits:
    """The one queue before a provider; another address, key or setting is another provider."""
    with _known:
        found = _limits.get((access, timing))
        if found is None:
            found = _limits[access, timing] = ProviderLimits(access.name, access.settings, timing)
        return found
