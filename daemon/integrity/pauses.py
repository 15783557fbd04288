"""
How long jobs wait before they read a file again. Tests shorten these pauses with ``INTEGRITY_PAUSES``.

Nobody else should set it: reads that follow at once may be answered from the same buffer, and confirm nothing. What the
file system asks for (the granule of its clock, R1), and the patience with other programs, are not shortened by it.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from integrity.errors import ConfigError, printable

VARIABLE = "INTEGRITY_PAUSES"
_LEAST = 0.001


class Pauses(NamedTuple):
    """
    The pauses before files are read again, in seconds.

    Attributes:
        confirm_s: before each of the reads that confirm a mismatch: enough time for some hundred rotations of a drive
            and for the controller's buffer to be reused.
        retry_s: before re-reading a file that changed while it was read: three tries in less than ten seconds (R1).
    """

    confirm_s: float = 2.0
    retry_s: float = 3.0


def read_pauses() -> Pauses:
    """
    Return the pauses, multiplied by the factor in ``INTEGRITY_PAUSES`` if it is set.

    Raises:
        ConfigError: it is set to something else.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return Pauses()
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not _LEAST <= factor <= 1:  # also refuses NaN
        raise ConfigError(
            f"{VARIABLE}={printable(text)}: must be a factor from {_LEAST} to 1; it is meant for tests of this program:"
            " unset it"
        )
    real = Pauses()
    return Pauses(confirm_s=real.confirm_s * factor, retry_s=real.retry_s * factor)
