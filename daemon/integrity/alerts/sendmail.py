"""
Send mail through the local ``sendmail``, which postfix, exim, msmtp and others provide.

Also decides whether sendmail is usable: the setuid or setgid helpers of a real mail server get no privileges in a
process with no_new_privs, such as our service.
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

# sysexits.h: EX_USAGE, EX_DATAERR, EX_NOUSER, EX_NOHOST, EX_NOPERM, EX_CONFIG. All others may be temporary.
_PERMANENT = frozenset({64, 65, 67, 68, 77, 78})
# These talk to a server themselves, so they need no privileged helper.
_NEEDS_NO_PRIVILEGES = frozenset({"msmtp"})


@dataclass(frozen=True, slots=True)
class SendmailChannel:
    """
    A channel for all recipients; the local mail server delivers to each of them.

    Args:
        mail: the configuration.
        hostname: replaces HOSTNAME in the sender.
        program: path of sendmail.
        timeout_s: time limit for one run.
    """

    mail: Mail
    hostname: str
    program: str = PROGRAM
    timeout_s: float = TIMEOUT_S

    @property
    def name(self) -> str:
        return "sendmail"

    def send(self, message: Message) -> None:
        """Run sendmail: -t takes the recipients from the header, -i lets a line with one dot pass."""
        mail = make_mail(message, sender=sender_of(self.mail.sender, self.hostname), to=self.mail.to)
        # sendmail expects the system's line endings.
        data = mail.as_bytes(policy=mail.policy.clone(linesep="\n"))
        ended = run_program([self.program, "-i", "-t"], data, timeout_s=self.timeout_s)
        if ended.code:
            text = f"{self.program}: exit code {ended.code}: {ended.stderr or 'it did not say why'}"
            raise ChannelError(text, is_permanent=ended.code in _PERMANENT)
        if ended.stderr:
            _log.warning("sendmail took the mail and said: %s", ended.stderr)


def is_usable(program: str = PROGRAM, *, status_file: str = "/proc/self/status") -> bool:
    if not os.access(program, os.X_OK):
        return False
    return not _is_barred_from_privileges(status_file) or not needs_privileges(program)


def needs_privileges(program: str = PROGRAM) -> bool:
    """Return whether an installed sendmail works only if it gains privileges, which our system service rules out."""
    real = os.path.realpath(program)
    has_more_rights = bool(os.stat(real).st_mode & 0o6000)
    return os.path.basename(real) not in _NEEDS_NO_PRIVILEGES or has_more_rights


def _is_barred_from_privileges(status_file: str) -> bool:
    """Return whether the kernel ignores setuid and setgid bits for our children (PR_SET_NO_NEW_PRIVS, prctl(2))."""
    try:
        with open(status_file, "rb") as status:
            return any(line.split() == [b"NoNewPrivs:", b"1"] for line in status)
    except FileNotFoundError:  # not Linux, or no /proc: assume no restriction
        return False
