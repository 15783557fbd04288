"""What ``integrity setup`` says: trust, backups, arithmetic, and the times for cron."""

from __future__ import annotations

import pytest

from integrity.files.capability import get_capability
from integrity.jobs.setup.backups import LikelyCopy
from integrity.jobs.setup.look import Workload
from integrity.views import setup as views

DAY_S = 86_400
MIB = 1 << 20
TIB = 1 << 40


@pytest.mark.parametrize(
    ("fs_type", "expected"),
    [
        ("ext4", "can prove bit rot"),
        ("btrfs", "can prove bit rot; has checksums of its own"),
        ("exfat", "finds damage; can't always tell it from an edit"),
        ("fuse.mergerfs", "finds damage; can't always tell it from an edit"),
        ("nfs4", "finds damage; a share does not always tell it from an edit"),
    ],
)
def test_trust_in_a_file_system(fs_type: str, expected: str) -> None:
    """What can be said of a difference that is found there."""
    assert expected == views.describe_trust(get_capability(fs_type))


def test_backup_is_described_by_what_was_seen() -> None:
    """How many files it has, what it lacks, and how many were read on both sides."""
    copy = LikelyCopy(b"/srv/data", b"/mnt/usb/data", b"/mnt/usb", 40, 30, 4, read=3, equal=2, fills_holder=False)
    expected = (
        "/mnt/usb/data looks like a backup of /srv/data: has 30 of 40 files"
        " (6 missing, 4 of another size: older, or left out?); 2 of 3 compared are equal"
    )

    assert expected == views.describe_copy(copy)


@pytest.mark.parametrize(
    ("size_bytes", "rate", "windows", "every_days", "expected"),
    [
        (
            1 * TIB,
            100.0 * MIB,
            "01:00-06:00",
            30,
            "1.0 TiB at 100 MiB/s (measured) = 2 h 54 min; 5 h a day allowed: 1 day",
        ),
        (
            *(40 * TIB, None, "sat,sun 00:00-12:00", 30),
            "40.0 TiB at 100 MiB/s (assumed) = 4 days; 3 h 25 min a day allowed: 34 days: NOT within 30 days",
        ),
        (1 * TIB, 100.0 * MIB, "0 1 * * *", 30, "1.0 TiB at 100 MiB/s (measured) = 2 h 54 min"),
    ],
)
def test_arithmetic_is_shown(size_bytes: int, rate: float | None, windows: str, every_days: int, expected: str) -> None:
    """Bytes, rate, hours, days; and that an interval can't be kept."""
    load = Workload("sda", size_bytes, rate)

    assert f"/srv/data (sda): {expected}" == views.describe_workload(load, [b"/srv/data"], windows, every_days * DAY_S)


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ("01:00-06:00", [("0 1 * * *", " --time-limit 5h")]),
        ("22:30-06:00", [("30 22 * * *", " --time-limit 450m")]),
        (
            "mon-fri 01:00-02:00, sat,sun 00:00-24:00",
            [("0 1 * * 1,2,3,4,5", " --time-limit 1h"), ("0 0 * * 6,0", " --time-limit 1d")],
        ),
        ("15 3 * * sun", [("15 3 * * sun", "")]),
    ],
)
def test_windows_become_lines_of_cron(windows: str, expected: list[tuple[str, str]]) -> None:
    """Each window is a time at which it opens and a limit that closes it."""
    assert expected == list(views.make_cron_times(windows))
