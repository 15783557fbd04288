"""
Write a message as a mail (RFC 5322) with plain text and HTML alternatives, and send it through the local ``sendmail``.

postfix, exim, msmtp and others provide that. It may not be usable: the setuid or setgid helpers of a real mail server
get no privileges in a process with no_new_privs, such as our service. Header injection is prevented elsewhere:
``compose`` makes one-line subjects, and the email package refuses line breaks in headers.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from integrity.alerts.command import TIMEOUT_S, run_program
from integrity.catalog.outbox import Message
from integrity.config import Mail
from integrity.errors import ChannelError

if TYPE_CHECKING:
    from email.message import EmailMessage


_MOST_INCIDENTS = 50
_ADDRESS = re.compile(r"[^<>]*<(?P<inside>[^\s<>,]+)>|(?P<bare>[^\s<>,]+)")


def make_mail(message: Message, *, sender: str, to: Sequence[str]) -> EmailMessage:
    """
    Return the mail. The same message always gives the same mail.

    Raises:
        ChannelError: an address is not valid in a header.
    """
    from email.message import EmailMessage  # here, for a service without mail saves 2 MiB
    from email.policy import SMTP

    mail = EmailMessage(policy=SMTP)
    try:
        mail["From"] = sender
        mail["To"] = ", ".join(to)
    except (ValueError, IndexError) as error:  # IndexError: from the email package's parser, for some broken addresses
        raise ChannelError(f"[mail] from or to is not an address: {error}", is_permanent=True) from error
    mail["Subject"] = message.subject
    mail["Date"] = datetime.fromtimestamp(message.created_at, UTC)
    mail["Message-ID"] = message.message_id
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: suppresses automatic replies
    if message.incidents:
        mail["X-Integrity-Incident"] = ", ".join(str(number) for number in message.incidents[:_MOST_INCIDENTS])
    # Quoted-printable, because lines may exceed the 998 bytes that SMTP allows.
    mail.set_content(message.body, cte="quoted-printable")
    mail.add_alternative(message.html, subtype="html", cte="quoted-printable")
    # The same boundary each time. "=_" can't occur in quoted-printable, so no text contains it (RFC 2045, 6.7).
    mail.set_boundary(f"=_{hashlib.sha256(message.message_id.encode()).hexdigest()[:32]}")
    return mail


def address_of(text: str) -> str:
    """
    Return the address in "Name <address>".

    Raises:
        ChannelError: the text contains no address.
    """
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        raise ChannelError(f"[mail] {text!r} is not an address; write it as name@host", is_permanent=True)
    return found["inside"] or found["bare"]


def sender_of(configured: str, hostname: str) -> str:
    """Return the configured sender with HOSTNAME replaced by the machine's name."""
    return configured.replace("HOSTNAME", hostname)


_log = logging.getLogger(__name__)

SENDMAIL = "/usr/sbin/sendmail"

# sysexits.h: EX_USAGE, EX_DATAERR, EX_NOUSER, EX_NOHOST, EX_NOPERM, EX_CONFIG. All others may be temporary.
_PERMANENT = frozenset({64, 65, 67, 68, 77, 78})
# These talk to a server themselves, so they need no privileged helper.
_NEEDS_NO_PRIVILEGES = frozenset({"msmtp"})


@dataclass(frozen=True, slots=True)
class SendmailChannel:
    """A channel for all recipients; the local mail server delivers to each of them."""

    mail: Mail
    hostname: str
    program: str = SENDMAIL
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


def is_usable(program: str = SENDMAIL, *, status_file: str = "/proc/self/status") -> bool:
    if not os.access(program, os.X_OK):
        return False
    try:  # the kernel may ignore setuid and setgid bits for our children (PR_SET_NO_NEW_PRIVS, prctl(2))
        with open(status_file, "rb") as status:
            is_barred = any(line.split() == [b"NoNewPrivs:", b"1"] for line in status)
    except FileNotFoundError:  # not Linux, or no /proc: assume no restriction
        is_barred = False
    return not is_barred or not needs_privileges(program)


def needs_privileges(program: str = SENDMAIL) -> bool:
    """Return whether an installed sendmail works only if it gains privileges, which our system service rules out."""
    real = os.path.realpath(program)
    has_more_rights = bool(os.stat(real).st_mode & 0o6000)
    return os.path.basename(real) not in _NEEDS_NO_PRIVILEGES or has_more_rights
