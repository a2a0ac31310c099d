"""Which devices hold no files but the kernel's view of itself: /proc, /sys and the like, wherever mounted."""

from functools import cache
from os import makedev
from pathlib import Path

_KINDS = frozenset(
    {
        "bpf", "binfmt_misc", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
        "mqueue", "nsfs", "proc", "pstore", "securityfs", "selinuxfs", "sysfs", "tracefs",
    }
)  # fmt: skip


def is_of_the_kernel(device: int) -> bool:
    """Whether files of that device (`st_dev`) are none that a program stored there."""
    return device in _kernel_devices()


@cache
def _kernel_devices() -> frozenset[int]:
    """Asked once: such file systems are mounted when a machine or a container starts."""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return frozenset()  # No Linux: there are no such file systems.
    found = set()
    for line in lines:
        # id parent major:minor root place options... - type source options
        before, _, after = line.partition(" - ")
        if after.partition(" ")[0] in _KINDS:
            major, _, minor = before.split(" ")[2].partition(":")
            found.add(makedev(int(major), int(minor)))
    return frozenset(found)
