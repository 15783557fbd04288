"""That the catalog can't be written is told without it: by a real mail server, and not every minute."""

from __future__ import annotations

from integrity.alerts.channels import Channel, make_channels
from integrity.service.alert_thread import AGAIN_S, LASTS_S, PAUSE_S, CatalogFailureAlert
from support.alerting import HOST, mail_config
from support.catalogs import NOW
from support.servers import free_port
from support.smtpsink import SmtpSink

FULL = "/var/lib/integrity: no space is left: free space"


class FailureAlert:
    """A ``CatalogFailureAlert`` on clocks that the test sets."""

    def __init__(self, port: int) -> None:
        self.now = 0.0
        self.port = port
        self._alert = CatalogFailureAlert(HOST, lambda: NOW + self.now, lambda: self.now)

    def look(self, trouble: str, *, after: float = 0.0) -> None:
        """Pass it the present trouble, "" for none, some time later."""
        self.now += after
        self._alert.look(trouble, self._channels)

    def _channels(self) -> list[Channel]:
        return make_channels(mail_config(self.port), hostname=HOST)


def test_catalog_that_can_not_be_written_is_mailed(sink: SmtpSink) -> None:
    """When it has lasted, once; again after a day."""
    alert = FailureAlert(sink.port)
    alert.look(FULL)
    alert.look(FULL, after=LASTS_S - 1)
    assert [] == sink.received
    for _ in range(10):
        alert.look(FULL, after=60)
    (received,) = sink.received
    assert "[integrity] nas: the catalog can't be written" == received.mail["Subject"]
    assert FULL in received.text
    alert.look(FULL, after=AGAIN_S)
    assert 2 == len(sink.received)


def test_what_passes_is_not_told_and_what_comes_and_goes_is_told_hourly(sink: SmtpSink) -> None:
    """A moment without trouble begins anew, but a mail each minute helps nobody."""
    alert = FailureAlert(sink.port)
    for _ in range(5):
        alert.look(FULL, after=LASTS_S - 1)
        alert.look("", after=1)
    assert [] == sink.received
    for _ in range(int(PAUSE_S // 120)):
        alert.look(FULL, after=30)
        alert.look(FULL, after=LASTS_S)
        alert.look("", after=30)
    assert 1 == len(sink.received)
    alert.look(FULL, after=PAUSE_S)
    alert.look(FULL, after=LASTS_S)
    assert 2 == len(sink.received)


def test_mail_that_no_server_takes_is_tried_again(sink: SmtpSink) -> None:
    """Nothing is written down, so it is tried until one channel took it."""
    alert = FailureAlert(free_port())
    alert.look(FULL)
    alert.look(FULL, after=LASTS_S)
    alert.port = sink.port
    alert.look(FULL, after=LASTS_S)
    alert.look(FULL, after=LASTS_S)
    assert 1 == len(sink.received)
