"""Which machine reports, as a number that two machines which run at the same time never have in common."""

from __future__ import annotations

from hashlib import blake2b

from integrity.files.system_load import read_boot_uuid
from integrity.reporting.protocol import RUN_BYTES


def read_machine(hostname: str) -> bytes:
    """
    Return the number of this machine: 16 bytes, others after it was started again.

    It is made of the id of the running boot, for clones of a disk have the same ``/etc/machine-id``, and of the name,
    for containers of one machine have the same boot.
    """
    text = f"{read_boot_uuid()} {hostname}".encode("utf-8", "surrogateescape")
    return blake2b(text, digest_size=RUN_BYTES, person=b"integrity-hub").digest()
