"""
Mail through the machine's own ``sendmail``: postfix, exim, msmtp and others all have one.

Decides, too, whether it can be used at all: the setuid or setgid helpers of a real mail server do nothing for a
process that may gain no privileges, as our service is.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from integrity.alerts.command import TIMEOUT_S, run_program
from integrity.alerts.mail import make_mail, sender_of
from integrity.catalog.outbox import Message
from integrity.config import Mail
from integrity.errors import ChannelError

_log = logging.getLogger(__name__)

PROGRAM = "/usr/sbin/sendmail"

# sysexits.h: EX_USAGE, EX_DATAERR, EX_NOUSER, EX_NOHOST, EX_NOPERM, EX_CONFIG. All others may pass.
_PERMANENT = frozenset({64, 65, 67, 68, 77, 78})
# They talk to a server themselves, and need no helper with more rights than the caller's.
_NEEDS_NO_PRIVILEGES = frozenset({"msmtp"})


@dataclass(frozen=True, slots=True)
class SendmailChannel:
    """
    Mails for all recipients, whom the machine's mail server takes care of one by one.

    Args:
        mail: the configuration.
        hostname: of this machine.
        program: sendmail's path.
        timeout_s: how long it may take.
    """

    mail: Mail
    hostname: str
    program: str = PROGRAM
    timeout_s: float = TIMEOUT_S

    @property
    def name(self) -> str:
        """Name the program."""
        return "sendmail"

    def send(self, message: Message) -> None:
        """Hand the mail over: -t takes the recipients from the header, -i lets a line of one dot pass."""
        mail = make_mail(message, sender=sender_of(self.mail.sender, self.hostname), to=self.mail.to)
        # Programs take lines as the system ends them.
        data = mail.as_bytes(policy=mail.policy.clone(linesep="\n"))
        ended = run_program([self.program, "-i", "-t"], data, timeout_s=self.timeout_s)
        if ended.code:
            text = f"{self.program}: exit code {ended.code}: {ended.stderr or 'it did not say why'}"
            raise ChannelError(text, is_permanent=ended.code in _PERMANENT)
        if ended.stderr:
            _log.warning("sendmail took the mail and said: %s", ended.stderr)


def is_usable(program: str = PROGRAM, *, status_file: str = "/proc/self/status") -> bool:
    """Say whether there is a sendmail, and whether it can work for this process."""
    if not os.access(program, os.X_OK):
        return False
    if not _is_barred_from_privileges(status_file):
        return True
    real = os.path.realpath(program)
    has_more_rights = bool(os.stat(real).st_mode & 0o6000)
    return os.path.basename(real) in _NEEDS_NO_PRIVILEGES and not has_more_rights


def _is_barred_from_privileges(status_file: str) -> bool:
    """Say whether setuid and setgid bits are ignored for what this process starts: PR_SET_NO_NEW_PRIVS in prctl(2)."""
    try:
        with open(status_file, "rb") as status:
            return any(line.split() == [b"NoNewPrivs:", b"1"] for line in status)
    except FileNotFoundError:  # no Linux, or no /proc: nothing bars us that could be asked
        return False
