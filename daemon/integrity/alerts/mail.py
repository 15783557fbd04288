"""
Write a message as a mail (RFC 5322) with plain text and HTML alternatives.

Header injection is prevented elsewhere: ``compose`` makes one-line subjects, and the email package refuses line breaks
in headers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from integrity.catalog.outbox import Message
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
