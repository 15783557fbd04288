"""The box that boots systemd does what the tests of the units rely on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.systemdbox import SystemdBox


@pytest.mark.root
def test_box_boots_runs_a_unit_and_leaves_nothing(tmp_path: Path) -> None:
    """A oneshot unit runs and is logged; its writes stay inside, but for a bound folder; the machine is as before."""
    mounts = Path("/proc/self/mountinfo").read_text()
    (tmp_path / "shared").mkdir()
    with SystemdBox({tmp_path / "shared": "/srv/shared"}) as box:
        pid = box.pid
        script = "echo hello; echo out > /srv/shared/out; echo in > /etc/inside"
        box.put(
            "/etc/systemd/system/hello.service",
            f"[Service]\nType=oneshot\nExecStart=/bin/sh -c '{script}'\n",
        )
        box.run("systemctl", "daemon-reload")
        box.run("systemctl", "start", "hello.service")

        assert "success" == box.show("hello.service", "Result")
        assert "hello" in box.log("hello.service")
        assert "in\n" == (box.root / "etc/inside").read_text()
        box.run("false", expect=1)

    assert "out\n" == (tmp_path / "shared/out").read_text()
    assert not os.path.exists("/etc/inside")
    assert not os.path.exists(f"/proc/{pid}")
    assert not box.root.exists()
    assert mounts == Path("/proc/self/mountinfo").read_text()
