"""Code that is held to the rights of files even when the tests are run by root."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION_3 = 0x20080522
_DAC_OVERRIDE_AND_READ_SEARCH = 0b110


@contextmanager
def held_to_rights() -> Iterator[None]:
    """Drop root's right to read and enter everything, for this thread, until the block ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    capabilities = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, capabilities) == 0
    effective = capabilities[0]
    capabilities[0] = effective & ~_DAC_OVERRIDE_AND_READ_SEARCH
    assert libc.capset(header, capabilities) == 0
    try:
        yield
    finally:
        capabilities[0] = effective
        libc.capset(header, capabilities)
