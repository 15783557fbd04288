"""
Write a message as a mail (RFC 5322), plain text and HTML beside each other.

Anything that a mail client could be fooled with is kept out before: subjects are one line (``compose``), and the email
package refuses line breaks in headers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP

from integrity.catalog.outbox import Message
from integrity.errors import ChannelError

_MOST_INCIDENTS = 50
_ADDRESS = re.compile(r"[^<>]*<(?P<inside>[^\s<>,]+)>|(?P<bare>[^\s<>,]+)")


def make_mail(message: Message, *, sender: str, to: Sequence[str]) -> EmailMessage:
    """
    Write the mail; the same message always becomes the same mail.

    Raises:
        ChannelError: an address can't stand in a header.
    """
    mail = EmailMessage(policy=SMTP)
    try:
        mail["From"] = sender
        mail["To"] = ", ".join(to)
    except (ValueError, IndexError) as error:  # IndexError: the parser's, over some broken addresses
        raise ChannelError(f"[mail] from or to is no address: {error}", is_permanent=True) from error
    mail["Subject"] = message.subject
    mail["Date"] = datetime.fromtimestamp(message.created_at, UTC)
    mail["Message-ID"] = message.message_id
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's absence is to be told of in answer
    if message.incidents:
        mail["X-Integrity-Incident"] = ", ".join(str(number) for number in message.incidents[:_MOST_INCIDENTS])
    # Quoted-printable: lines may be longer than the 998 bytes that SMTP allows.
    mail.set_content(message.body, cte="quoted-printable")
    mail.add_alternative(message.html, subtype="html", cte="quoted-printable")
    # Always the same for this message; "=_" can't stand in quoted-printable, so no text can hold it (RFC 2045, 6.7).
    mail.set_boundary(f"=_{hashlib.sha256(message.message_id.encode()).hexdigest()[:32]}")
    return mail


def address_of(text: str) -> str:
    """
    Take the address out of "Name <address>".

    Raises:
        ChannelError: there is none.
    """
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        raise ChannelError(f"[mail] {text!r} is no address; write it as name@host", is_permanent=True)
    return found["inside"] or found["bare"]


def sender_of(configured: str, hostname: str) -> str:
    """Put the machine's name in its place in the configured sender."""
    return configured.replace("HOSTNAME", hostname)
