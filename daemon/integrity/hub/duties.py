"""What a hub does again and again: check its boxes, send alerts, delete what is old."""

from __future__ import annotations

import socket
from functools import partial

from integrity.alerts.channels import make_channels
from integrity.config import Config
from integrity.hub.alerts import send_alerts
from integrity.hub.box_checks import BoxLimits, check_boxes
from integrity.hub.database import HubDatabase
from integrity.hub.forgetting import forget_unused
from integrity.hub.retention import retain
from integrity.hub.work import DAY_S, MINUTE_S, HubDuty


def make_duties(config: Config, *, limits: BoxLimits, page_url: str) -> list[HubDuty]:
    """
    Return what a hub does again and again.

    Args:
        config: its mail and alerts are those of the hub.
        limits: what a box may do before it is a finding.
        page_url: of the pages of the hub; empty: there are none.
    """
    host = socket.gethostname()
    channels = make_channels(config, hostname=host)
    send = partial(send_alerts, channels=channels, settings=config.alerts, hostname=host, page_url=page_url)
    return [
        HubDuty("check_boxes", MINUTE_S, partial(_check_boxes, limits=limits), unless="boxes were not checked"),
        HubDuty("send_alerts", MINUTE_S, send, is_after_votes=True, unless="alerts were not sent"),
        HubDuty("retain", DAY_S, _retain, unless="old rows were not deleted"),
    ]


def _check_boxes(database: HubDatabase, now: int, *, limits: BoxLimits) -> None:
    with database.transaction() as c:
        check_boxes(c, now, limits)


def _retain(database: HubDatabase, now: int) -> None:
    retain(database, now)
    forget_unused(database)
