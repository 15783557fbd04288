"""What the tests of alerts share: a clock to set, a catalog to find things in, and somebody who delivers."""

from __future__ import annotations

import time
from collections.abc import Sequence

from integrity.alerts.channels import Channel, make_channels
from integrity.alerts.delivery import AlertDelivery
from integrity.catalog import findings
from integrity.catalog.findings import NewFinding
from integrity.config import Alerts, Config, Mail, MailTransport
from integrity.model import Certainty, FileId, Finding, FindingId, FindingKind
from support.catalogs import MIB, NOW, CatalogBox
from support.clock import Clock

HOST = "nas.example.org"


def mail_config(port: int, *to: str, alerts: Alerts | None = None) -> Config:
    """Make a config that mails to a server on the loopback."""
    mail = Mail(to=to or ("me@example.org",), transport=MailTransport.SMTP, host="127.0.0.1", port=port)
    return Config(catalog=b"/unused", mail=mail, alerts=alerts or Alerts())


class Teller:
    """
    A delivery with a clock of its own, on a catalog with one root, /srv/photos.

    Attributes:
        box: the catalog.
        clock: what the delivery reads.
        delivery: the present one.
        beats: when it showed that it is alive, on the monotonic clock.
    """

    def __init__(
        self, box: CatalogBox, config: Config, *, clock: Clock | None = None, channels: Sequence[Channel] | None = None
    ) -> None:
        self.box = box
        self.config = config
        self.beats: list[float] = []
        self.clock = clock or Clock(NOW)
        self.channels = make_channels(config, hostname=HOST) if channels is None else channels
        self.restart()

    def restart(self) -> None:
        """Begin anew, as after a reboot."""
        beat = lambda: self.beats.append(time.monotonic())  # noqa: E731
        self.delivery = AlertDelivery(
            self.box.catalog, self.config, self.channels, clock=self.clock, hostname=HOST, beat=beat
        )

    def tick(self, *, after: float = 0) -> float:
        """Let time pass, then deliver once."""
        self.clock.now += after
        return self.delivery.tick()

    def find(
        self,
        path: bytes | None,
        kind: FindingKind = FindingKind.ROT,
        *,
        file_id: FileId | None = None,
        blocks: tuple[int, ...] = (17,),
        certainty: Certainty | None = Certainty.PROVEN,
    ) -> Finding:
        """Find something now."""
        is_about_bytes = path is not None
        new = NewFinding(
            kind=kind,
            root_id=self.box.root.id,
            file_id=file_id,
            path=path,
            message="the bytes on the disk changed though nobody wrote to the file: bit rot",
            certainty=certainty if is_about_bytes else None,
            blocks=blocks if is_about_bytes else (),
            block_size_bytes=MIB if is_about_bytes else None,
            ranges=tuple((block * MIB, MIB) for block in blocks) if is_about_bytes else (),
        )
        with self.box.catalog.transaction() as c:
            return findings.open_finding(c, new, now=int(self.clock.now), run_id=self.box.run_id)[0]

    def resolve(self, *ids: FindingId) -> None:
        """Resolve findings now."""
        with self.box.catalog.transaction() as c:
            findings.resolve_ids(c, ids, resolution="repaired", now=int(self.clock.now))
