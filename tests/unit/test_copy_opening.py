"""Finding the kind of a copy by its URL."""

from __future__ import annotations

import sys

import pytest

from integrity.config.copy_urls import Scheme
from integrity.copies.folder import TreeCopy
from integrity.copies.manifest import ManifestCopy
from integrity.copies.opening import _SCHEMES, open_copy
from integrity.copies.rclone.copy import RcloneCopy
from integrity.errors import ConfigError


def test_path_is_a_folder_or_a_manifest(tmp_path):
    """What is a file is read as a manifest; what is not there will be a folder that is not mounted."""
    (tmp_path / "sums").write_bytes(b"")
    assert isinstance(open_copy(str(tmp_path / "sums")), ManifestCopy)
    assert isinstance(open_copy(str(tmp_path)), TreeCopy)
    assert isinstance(open_copy(str(tmp_path / "not" / "there")), TreeCopy)


def test_every_scheme_has_a_kind_of_copy():
    """The configuration accepts the schemes that can be opened, and no others."""
    assert set(Scheme) == set(_SCHEMES)


def test_path_may_be_any_bytes(tmp_path):
    """A path that is no text comes as Python decodes names, and one with a colon is no URL."""
    (tmp_path / "odd:\udcff").mkdir()
    (tmp_path / "odd:\udcff" / "file").write_bytes(b"x")
    with open_copy(str(tmp_path / "odd:\udcff")) as copy:
        assert [b"file"] == [found.path for found in copy.list()]
        assert r"odd:\xff" in copy.shown


def test_manifest_may_name_files_by_the_root(tmp_path):
    """Absolute names below the root are its files."""
    (tmp_path / "sums").write_bytes(b"ab" * 16 + b"  /srv/photos/a\n")
    with open_copy(str(tmp_path / "sums"), root=b"/srv/photos") as copy:
        assert [b"a"] == [found.path for found in copy.list()]


def test_scheme_decides(tmp_path):
    """``rclone:`` has one colon, as rclone's own remotes."""
    assert isinstance(open_copy("rclone:remote:path"), RcloneCopy)


def test_unknown_scheme_names_the_known_ones():
    """Of what can't be read directly, rclone may know how."""
    with pytest.raises(ConfigError, match=r"ftp://.*rclone:REMOTE:PATH"):
        open_copy("ftp://host/path")


@pytest.mark.parametrize("url", ["/a/path", "ssh://host/path", "rclone:remote:path"])
def test_endpoint_is_for_s3_only(url):
    """An option that would be ignored is refused."""
    with pytest.raises(ConfigError, match="--endpoint"):
        open_copy(url, endpoint="http://localhost:9000")


@pytest.mark.parametrize(
    ("url", "package", "extra"), [("ssh://host/path", "asyncssh", "sftp"), ("s3://bucket/prefix", "boto3", "s3")]
)
def test_missing_extra_says_how_to_install_it(monkeypatch, url, package, extra):
    """Without its library a kind of copy can't be made, and the message is the command to type."""
    for name in [name for name in sys.modules if name.startswith("integrity.copies.s")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"{package}; .* -m pip install .*\[{extra}\]"):
        open_copy(url)
