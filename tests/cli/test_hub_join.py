"""``integrity hub join``: a token that works is stored, the configuration gets a section and keeps all else."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import Box
from support.planted import plant
from support.servers import make_certificate
from support.service import Service
from support.smallhub import TOKEN, SmallHub, join_hub
from support.waiting import wait_until


@pytest.fixture
def hub() -> Iterator[SmallHub]:
    """Give a hub that answers rightly."""
    with SmallHub() as made:
        yield made


def config_of(box: Box) -> Path:
    return box.home / "integrity.toml"


def is_unchanged(box: Box) -> bool:
    """Return whether the configuration is empty as it was, and no token was stored."""
    return not config_of(box).read_text() and not (box.home / "hub-token").exists()


def test_empty_configuration_gets_a_section(integrity: Box, hub: SmallHub) -> None:
    """The token is in a file of its own that nobody else can read; the hub learned nothing yet."""
    done = join_hub(integrity, hub.url)

    place = config_of(integrity)
    token_file = place.parent / "hub-token"
    assert f'[hub]\nurl = "{hub.url}"\ntoken_file = "{token_file}"\n' == place.read_text()
    assert (f"{TOKEN}\n", 0o600) == (token_file.read_text(), stat.S_IMODE(token_file.stat().st_mode))
    assert f"The hub at {hub.url} accepts this box." in done.stdout
    assert TOKEN not in done.stdout + done.stderr
    assert (["messages"], [], []) == (hub.calls, hub.streams, hub.heartbeats)


@pytest.mark.parametrize("header", ["", '[hub]  # to whom\n# url = ""\n\n[mail]\nto = []\n'])
def test_section_is_added_and_all_else_stays(integrity: Box, hub: SmallHub, header: str) -> None:
    """Comments, order, and the mode of the file; a section that is there already gets the keys."""
    text = f'# mine\n[defaults]\nverify_every = "60d"  # long\n\n{header}'
    place = integrity.configure(text)
    place.chmod(0o640)

    join_hub(integrity, hub.url)

    after = place.read_text()
    assert text.splitlines() == [line for line in after.splitlines() if line not in added(after, text)]
    assert 0o640 == stat.S_IMODE(place.stat().st_mode)
    assert f'url = "{hub.url}"' in integrity.run("config", "show").stdout


def added(after: str, before: str) -> list[str]:
    """Return the lines that were added, and the blank one before a new section."""
    new = [line for line in after.splitlines() if line.startswith(("url =", "token_file ="))]
    return new if "[hub]" in before else [*new, "[hub]"]


def test_other_hub_is_not_replaced(integrity: Box, hub: SmallHub) -> None:
    """The owner decides to leave it."""
    place = integrity.configure('[hub]\nurl = "https://other.example"\ntoken_file = "/nowhere"\n')

    done = join_hub(integrity, hub.url, expect=2)

    assert "this box reports to https://other.example already" in done.stderr
    assert '[hub]\nurl = "https://other.example"\ntoken_file = "/nowhere"\n' == place.read_text()
    assert [] == hub.calls


def test_new_token_of_the_same_hub_takes_the_place_of_the_former(integrity: Box, hub: SmallHub) -> None:
    """After it was revoked, say."""
    join_hub(integrity, hub.url)
    place = config_of(integrity)
    before = place.read_text()
    (place.parent / "hub-token").write_text("integrity-box-" + "B" * 43)

    join_hub(integrity, hub.url)

    assert (before, f"{TOKEN}\n") == (place.read_text(), (place.parent / "hub-token").read_text())


@pytest.mark.parametrize("name", ["near.toml", "sub/near.toml", "../near.toml"])
def test_relative_path_of_the_configuration_is_as_good_as_any(
    integrity: Box, hub: SmallHub, tmp_path: Path, name: str
) -> None:
    """The token lies beside it, and [hub] names the absolute path: the service is started elsewhere."""
    folder = tmp_path / "here"
    place = (folder / name).resolve()
    (folder / "sub").mkdir(parents=True)
    place.write_text("# mine\n")

    done = join_hub(integrity, hub.url, "--config", name, folder=folder)

    assert f'# mine\n\n[hub]\nurl = "{hub.url}"\ntoken_file = "{place.parent}/hub-token"\n' == place.read_text()
    assert f"{TOKEN}\n" == (place.parent / "hub-token").read_text()
    assert str(place) in done.stdout


def test_folder_with_a_quotation_mark_is_spelled_as_toml_asks(integrity: Box, hub: SmallHub, tmp_path: Path) -> None:
    """A name that would end the text in the configuration does not."""
    place = tmp_path / 'a "b" \\ c' / "near.toml"
    place.parent.mkdir()
    place.touch()

    join_hub(integrity, hub.url, "--config", place)

    shown = integrity.run("config", "show", "--config", place, expect=0)
    assert "hub-token" in shown.stdout


def test_configuration_that_can_not_get_the_section_keeps_no_token(
    integrity: Box, hub: SmallHub, tmp_path: Path
) -> None:
    """The refusal comes before anything is asked, sent or written."""
    place = tmp_path / "mine.toml"
    place.write_text('hub = { report_every = "10m" }\n')
    before = place.read_text()

    done = join_hub(integrity, hub.url, "--config", place, expect=2)

    assert f"{place}: [hub] can't be added to it; add this by hand:" in done.stderr
    assert (before, []) == (place.read_text(), hub.calls)
    assert not (tmp_path / "hub-token").exists()


@pytest.mark.parametrize(
    ("token", "code", "words"),
    [
        ("integrity-box-" + "B" * 43, 3, "does not accept the token of this box"),
        ("secret", 2, "this is no token of a hub"),
        ("", 2, "this is no token of a hub"),
    ],
)
def test_token_that_does_not_work_changes_nothing(
    integrity: Box, hub: SmallHub, token: str, code: int, words: str
) -> None:
    """Neither a file nor a section."""
    done = join_hub(integrity, hub.url, token=token, expect=code)

    assert words in done.stderr
    assert is_unchanged(integrity)


def test_address_that_is_no_hub_changes_nothing(integrity: Box) -> None:
    """Nothing listens there, or the token would be sent in plain text."""
    assert "Connection refused" in join_hub(integrity, "http://127.0.0.1:1", expect=3).stderr
    assert "https://" in join_hub(integrity, "http://hub.example.org", expect=2).stderr
    assert is_unchanged(integrity)


def test_certificate_of_ones_own_is_named_in_the_configuration(integrity: Box, tmp_path: Path) -> None:
    """It is trusted for this hub alone."""
    certificate = make_certificate(tmp_path)
    with SmallHub(certificate) as hub:
        assert "certificate is not trusted" in join_hub(integrity, hub.url, expect=3).stderr
        join_hub(integrity, "--certificate", certificate, hub.url)

    assert f'certificate = "{certificate}"' in config_of(integrity).read_text()


def test_running_service_reports_from_then_on(integrity: Box, tmp_path: Path, hub: SmallHub) -> None:
    """It need not be restarted."""
    photos = plant(tmp_path / "photos", 2)
    integrity.configure(f'[[root]]\npath = "{photos}"\n[hub]\nreport_every = "1s"\n')
    with Service(integrity) as service:
        service.wait_begun()
        assert "The service reports from now on" in join_hub(integrity, hub.url).stdout
        wait_until(lambda: bool(hub.heartbeats), "a heartbeat")
        service.stop()
