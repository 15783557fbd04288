"""
Imported by the process that runs of the program are forked from: they wait for seconds where they would for a minute.

How long the program waits for a silent server is no setting of it, but an argument of what speaks to one.
"""

from __future__ import annotations

from collections.abc import Callable

from integrity.alerts.smtp import SmtpChannel
from integrity.copies.rclone.copy import RcloneCopy
from integrity.copies.s3.copy import S3Copy
from integrity.copies.ssh import copy

SILENCE_S = 1.5
SENDING_S = 5.0
_COMPUTING_S = 4.0  # for a program over there that prints nothing
_PROGRAM_S = 15.0  # of rclone, which tries three times


def _shorten(function: Callable[..., None], **defaults: object) -> None:
    given = function.__kwdefaults__ or {}
    assert defaults.keys() <= given.keys(), function
    given.update(defaults)


_shorten(S3Copy.__init__, timeout_s=SILENCE_S, attempts=2)
_shorten(copy.SshCopy.__init__, timeout_s=SILENCE_S)
_shorten(RcloneCopy.__init__, timeout_s=SILENCE_S, idle_s=_PROGRAM_S)
for name in ("_FIND_PATIENCE_S", "_DIGEST_PATIENCE_S"):
    assert hasattr(copy, name)
    setattr(copy, name, _COMPUTING_S)
assert len(SmtpChannel.__init__.__defaults__ or ()) == 2
SmtpChannel.__init__.__defaults__ = (SILENCE_S, SENDING_S)
