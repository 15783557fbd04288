"""A hub with a certificate of its own: what boxes report is encrypted, and no token goes to anybody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import Box
from support.fleet import PATIENCE_S
from support.hubserver import HubServerProcess
from support.planted import plant
from support.servers import make_certificate
from support.service import Service
from support.smallhub import join_hub
from support.waiting import wait_until


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Make a certificate that is signed by itself."""
    return make_certificate(tmp_path)


def add(hub: HubServerProcess, name: str = "nas") -> str:
    """Return the token of a new box."""
    return hub.command("-q", "hub", "add", name, "--set", "*").strip()


def test_box_joins_and_reports_over_tls(integrity: Box, hub_url: str, certificate: Path, tmp_path: Path) -> None:
    """With ``--certificate`` it trusts the hub; plain HTTP gets no answer there."""
    with HubServerProcess(Box(tmp_path / "hub-home"), hub_url, certificate=certificate) as hub:
        root = plant(tmp_path / "photos", 2)
        integrity.configure(f'[[root]]\npath = "{root}"\nreplica_set = "photos"\n[hub]\nreport_every = "1s"\n')
        assert "accepts this box" in join_hub(integrity, "--certificate", certificate, hub.url, token=add(hub)).stdout
        with Service(integrity) as service:
            service.wait_begun()
            wait_until(lambda: "had everything" in integrity.run("status").stdout, "a report", timeout_s=PATIENCE_S)
            service.stop()

        assert "; reported " in hub.command("hub", "list")
        plain = join_hub(Box(tmp_path / "plain"), hub.url.replace("https", "http"), token=add(hub, "other"), expect=3)
        assert "127.0.0.1" in plain.stderr


def test_hub_with_another_certificate_gets_no_token(integrity: Box, tmp_path: Path, certificate: Path) -> None:
    """A box says what to do, and when the certificate changes it stops to report rather than trusting the new one."""
    (tmp_path / "other").mkdir()
    other = make_certificate(tmp_path / "other")
    with HubServerProcess(Box(tmp_path / "hub-home"), str(tmp_path / "hub.db"), certificate=certificate) as hub:
        for options in ((), ("--certificate", other)):
            said = join_hub(integrity, *options, hub.url, token=add(hub, f"nas{len(options)}"), expect=3).stderr
            assert "127.0.0.1: its certificate is not trusted (self-signed certificate)" in said
            assert "set `certificate` in [hub]" in said
        assert "reported" not in hub.command("hub", "list").replace("has not reported", "")


def test_certificate_and_key_that_do_not_match_are_refused(integrity: Box, tmp_path: Path, certificate: Path) -> None:
    """The hub names both files, and does not start."""
    (tmp_path / "other").mkdir()
    key = certificate.with_suffix(".key")
    make_certificate(tmp_path / "other").with_suffix(".key").replace(key)
    integrity.configure(f'[hub_server]\nlisten = "127.0.0.1:1"\ncertificate = "{certificate}"\nkey = "{key}"\n')
    done = integrity.run("hub", "run", expect=2)

    assert f"{certificate} or {key}: can't be used as certificate and key" in done.stderr
