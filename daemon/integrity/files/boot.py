"""Which boot of the machine this is."""

from __future__ import annotations

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def read_boot_uuid() -> str:
    """Read the kernel's random number of the running boot, see random(4)."""
    with open(_BOOT_ID, encoding="ascii") as file:
        return file.read().strip()
