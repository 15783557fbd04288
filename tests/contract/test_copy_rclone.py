"""A remote of the real rclone as a copy: a local disk, a WebDAV server, and what rclone may do wrong."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.copysuite import LARGE, CopySuite, MakeCopy, list_entries
from integrity.copies.opening import open_copy
from integrity.copies.protocol import Copy, CopyEntry, Kind, Trouble
from integrity.copies.rclone.copy import RcloneCopy, find_name_fault, from_rclone, to_pattern, to_rclone
from integrity.errors import ConfigError, CopyUnreachable, ReadError, Unreadable, Unstable
from support.machine import need_programs
from support.privileges import let_in
from support.s3box import ACCESS, SECRET, S3Box
from support.servers import free_port
from support.sshbox import make_sshbox
from support.waiting import wait_until


@pytest.fixture(autouse=True)
def config(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give rclone a configuration of its own, and no questions to ask."""
    need_programs("rclone")
    path = tmp_path / "rclone.conf"
    path.write_text("[disk]\ntype = local\n")
    monkeypatch.setenv("RCLONE_CONFIG", str(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return path


class TestLocal(CopySuite):
    """A remote whose digests rclone computes."""

    @pytest.fixture
    def make(self) -> MakeCopy:
        return lambda folder: open_copy(f"rclone:disk:{folder}")

    @pytest.fixture
    def gone(self, tmp_path: Path) -> Copy:
        return RcloneCopy(f"rclone:disk:{tmp_path}/no/such")


@pytest.fixture
def webdav(tmp_path: Path, config: Path) -> Iterator[Path]:
    """Serve a folder to a remote called ``dav``, from which the owner's rclone reads."""
    folder = tmp_path / "served"
    folder.mkdir()
    port = free_port()
    config.write_text(f"{config.read_text()}[dav]\ntype = webdav\nurl = http://127.0.0.1:{port}\nvendor = other\n")
    server = subprocess.Popen(
        ["rclone", "serve", "webdav", str(folder), "--addr", f"127.0.0.1:{port}", "--dir-cache-time", "0"],
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: is_answering(port), "rclone's WebDAV server answers")
        yield folder
    finally:
        server.terminate()
        server.wait()


def is_answering(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5):
            return True
    except (urllib.error.URLError, ConnectionError):
        return False


def test_server_with_neither_digests_nor_shell_is_read(webdav):
    """Over WebDAV there are sizes and bytes only; they are listed and read all the same."""
    (webdav / "sub").mkdir()
    (webdav / "sub" / "large.bin").write_bytes(LARGE)
    (webdav / "a b").write_bytes(b"x")
    with open_copy("rclone:dav:") as copy:
        assert frozenset() == copy.remote_kinds
        assert not copy.keeps_times
        times_ns = {path: entry.mtime_ns for path, entry in list_entries(copy).items()}
        assert (webdav / "a b").stat().st_mtime_ns // 10**9 * 10**9 == times_ns[b"a b"]
        assert {b"a b": 1, b"sub/large.bin": len(LARGE)} == {
            path: entry.size_bytes for path, entry in list_entries(copy).items()
        }
        assert {b"sub/large.bin"} == list_entries(copy, b"sub").keys()
        file = copy.open(b"sub/large.bin")
        step = 1 << 20
        assert LARGE == b"".join(file.read(offset, step) for offset in range(0, len(LARGE), step))
        file.close()


def test_store_without_times_lists_those_of_the_upload(moto: S3Box, config: Path) -> None:
    """S3 has the files' times in headers only; the listing has the upload's, without a request for each."""
    bucket = moto.make_bucket()
    options = {"type": "s3", "provider": "Other", "endpoint": moto.endpoint, "force_path_style": "true"}
    options |= {"access_key_id": ACCESS, "secret_access_key": SECRET}
    config.write_text("[store]\n" + "".join(f"{name} = {value}\n" for name, value in options.items()))
    began_ns = time.time_ns() // 10**9 * 10**9
    moto.put(bucket, "copy/a", b"hello", Metadata={"mtime": "1000000000.5"})
    with open_copy(f"rclone:store:{bucket}/copy") as copy:
        entry = list_entries(copy)[b"a"]
        assert not copy.keeps_times

    assert entry.mtime_ns is not None
    assert began_ns <= entry.mtime_ns <= time.time_ns()
    assert ("HEAD", "copy/a") not in moto.find_questions(bucket)


def test_digests_are_computed_by_an_sftp_server(tmp_path, config):
    """Where the other side has md5sum, no bytes come over; and files are read over SFTP."""
    folder, port = tmp_path / "served", free_port()
    folder.mkdir()
    (folder / "large.bin").write_bytes(LARGE)
    secret = subprocess.run(["rclone", "obscure", "secret"], capture_output=True, text=True, check=True).stdout.strip()
    config.write_text(f"[far]\ntype = sftp\nhost = 127.0.0.1\nport = {port}\nuser = me\npass = {secret}\n")
    server = subprocess.Popen(
        ["rclone", "serve", "sftp", str(folder), "--addr", f"127.0.0.1:{port}", "--user", "me", "--pass", "secret"],
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: is_listening(port), "rclone's SFTP server listens")
        with open_copy("rclone:far:") as copy:
            assert () == list_entries(copy)[b"large.bin"].published
            assert [(b"large.bin", hashlib.md5(LARGE).digest())] == list(copy.digest([b"large.bin"], Kind.MD5))
            file = copy.open(b"large.bin")
            assert LARGE[2_000_000:2_000_100] == file.read(2_000_000, 100)
            file.close()
        server.terminate()
        server.wait()
        with pytest.raises(CopyUnreachable), open_copy("rclone:far:") as copy:
            list(copy.list())
    finally:
        server.kill()
        server.wait()


def test_control_characters_over_sftp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a name is listed over SFTP and not found again: that it is missing is not said."""
    folder = tmp_path / "served"
    folder.mkdir()
    for name in (b"plain", b"tab\tx"):
        (folder / os.fsdecode(name)).write_bytes(name)
    with make_sshbox(tmp_path, monkeypatch) as box:
        key = box.home / ".ssh" / "id_ed25519"
        url = f"rclone::sftp,host=127.0.0.1,port={box.port},user={box.user},key_file={key}:{folder}"
        with open_copy(url) as copy:
            paths = sorted(list_entries(copy))
            found = dict(copy.digest(paths, Kind.MD5))
            with pytest.raises(Unreadable, match="control character in its name"):
                copy.open(b"tab\tx")

    assert [b"plain", b"tab\tx"] == paths
    assert hashlib.md5(b"plain").digest() == found[b"plain"]
    trouble = found[b"tab\tx"]
    assert isinstance(trouble, Trouble)
    assert "control character in its name" in trouble.message


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionError:
        return False
    return True


def test_digests_that_rclone_would_compute_are_not_computed_for_a_listing(tmp_path):
    """A local disk publishes nothing, and computes MD5 and others when asked."""
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "file").write_bytes(b"hello")
    with open_copy(f"rclone:disk:{tmp_path}/copy") as copy:
        assert () == list_entries(copy)[b"file"].published
        assert {Kind.MD5, Kind.SHA1, Kind.SHA256} <= copy.remote_kinds
        assert [(b"file", hashlib.sha256(b"hello").digest())] == list(copy.digest([b"file"], Kind.SHA256))
        mtime_ns = (tmp_path / "copy" / "file").stat().st_mtime_ns
        assert mtime_ns == list_entries(copy)[b"file"].mtime_ns


def test_name_that_rclone_cannot_carry_is_trouble_and_known_as_such(tmp_path):
    """C2: the listing tells of it, and a caller can ask about each name before calling a file missing."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for name in (b"good", b"bad\xff", "quote\u201b".encode(), "picture\u240a".encode()):
        Path(os.fsdecode(bytes(folder) + b"/" + name)).write_bytes(b"x")
    with RcloneCopy(f"rclone:disk:{folder}") as copy:
        found = list(copy.list())
        with pytest.raises(ReadError, match="UTF-8"):
            copy.open(b"bad\xff")
    assert [b"good"] == [one.path for one in found if isinstance(one, CopyEntry)]
    assert 3 == sum(isinstance(one, Trouble) for one in found)
    assert copy.find_name_fault(b"bad\xff") is not None
    assert copy.find_name_fault("quote\u201b".encode()) is not None
    assert copy.find_name_fault("picture\u240a".encode()) is not None
    assert copy.find_name_fault(b"good") is None


def test_spelling_of_names_can_be_undone():
    """Every name without a fault comes back from rclone's spelling."""
    for name in (b"plain", b"new\nline", bytes(range(1, 0x2F)) + b"\x7f", "caf\u00e9 \U0001f4f7".encode()):
        assert find_name_fault(name) is None
        assert name == from_rclone(to_rclone(name))
    assert r"a\*\?\[b\]\{c\}\\" == to_pattern(b"a*?[b]{c}\\")


def test_folder_that_cannot_be_listed_is_trouble_not_absence(tmp_path, config):
    """C2: of what lies in a folder without permission nothing is known, and that is said."""
    folder = tmp_path / "copy"
    (folder / "closed").mkdir(parents=True)
    (folder / "closed" / "file").write_bytes(b"x")
    (folder / "file").write_bytes(b"x")
    (folder / "secret").write_bytes(b"x")
    (folder / "secret").chmod(0)
    (folder / "closed").chmod(0)
    config.chmod(0o644)
    let_in(tmp_path)
    rclone = as_somebody(tmp_path)
    with RcloneCopy(f"rclone:disk:{folder}", program=rclone) as copy:
        found = list(copy.list())
        digests = dict(copy.digest([b"file", b"secret"], Kind.MD5))
        file = copy.open(b"secret")
        with pytest.raises(Unreadable, match="permission denied"):
            file.read(0, 1)
        file.close()
    (folder / "closed").chmod(0o700)
    assert {b"file", b"secret"} == {one.path for one in found if isinstance(one, CopyEntry)}
    troubles = [one for one in found if isinstance(one, Trouble)]
    assert [b"closed"] == [trouble.path for trouble in troubles]
    assert "permission denied" in troubles[0].message
    assert isinstance(digests[b"file"], bytes)
    secret = digests[b"secret"]
    assert isinstance(secret, Trouble)
    assert "permission denied" in secret.message


def as_somebody(tmp_path: Path) -> str:
    """Make rclone run as somebody from whom permissions keep things."""
    if os.geteuid() != 0:
        return "rclone"
    need_programs("setpriv")
    program = tmp_path / "rclone-as-nobody"
    program.write_text('#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups rclone "$@"\n')
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("rclone:nosuchremote:path", "config"),
        ("rclone:disk:/proc/1/no/such", "no such folder|not found"),
        (":webdav,url='http://127.0.0.1:1',vendor=other:", "refused"),
    ],
)
def test_remote_that_cannot_be_reached_says_why(url, said):
    """C3: what rclone says, and the command that shows it again."""
    with pytest.raises(CopyUnreachable, match=rf"(?s)({said}).*rclone lsf"), RcloneCopy(url) as copy:
        list(copy.list())


def test_secrets_of_a_connection_string_are_never_shown():
    """C6: neither in the name of the copy nor in what rclone complains of."""
    url = "rclone::sftp,host=127.0.0.1,port=1,user=me,pass=sEcReT,key_pem='pRiVaTe':/path"
    copy = RcloneCopy(url)
    assert "rclone::sftp,...:/path" == copy.shown
    with pytest.raises(CopyUnreachable) as caught, copy:
        list(copy.list())
    assert "sEcReT" not in str(caught.value)
    assert "pRiVaTe" not in str(caught.value)


def test_server_that_never_answers_is_given_up(config):
    """C7: rclone gives up a silent connection."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        config.write_text(f"[silent]\ntype = webdav\nurl = http://127.0.0.1:{port}\nvendor = other\n")
        with pytest.raises(CopyUnreachable), RcloneCopy("rclone:silent:", timeout_s=0.3, idle_s=20) as copy:
            list(copy.list())


FEATURES = '{"Features": {"SlowHash": false, "SlowModTime": true}, "Hashes": ["md5", "other"], "Precision": 1}'


def pretend(tmp_path: Path, listing: str) -> str:
    """Make a program that answers as rclone would, and then as a script says."""
    program = tmp_path / "pretended"
    program.write_text(
        f"#!/bin/sh\ncase $1 in backend) echo '{FEATURES}' ;; *) cat > {tmp_path}/asked; {listing}\n;; esac\n"
    )
    program.chmod(0o755)
    return str(program)


def line(path: str, **more: object) -> str:

    return json.dumps({"Path": path, "Name": "any", "Size": 5, "ModTime": "", "IsDir": False, **more})


def test_hostile_listing_is_trouble(tmp_path):
    """C2: names that lead out are told and never asked for."""
    names = ["../up", "a/../../b", "/etc/passwd", "..", "a//b", "", "nul\0"]
    lines = ",\n".join(line(name) for name in [*names, "good"])
    program = pretend(tmp_path, f"printf '[\\n'; cat <<'END'\n{lines}\nEND\necho ']'")
    with RcloneCopy("rclone:x:", program=program) as copy:
        found = list(copy.list())
    assert [b"good"] == [one.path for one in found if isinstance(one, CopyEntry)]
    assert len(names) == sum(isinstance(one, Trouble) for one in found)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (f"echo '['; echo '{line('a')}'; exit 1", "exit code 1"),
        (f"echo '['; echo '{line('a')}'; exit 0", "in the middle"),
        ("echo '['; echo '{\"Path\": 5}'; echo ']'", "understood"),
        ("echo '['; echo 'garbage'; echo ']'", "understood"),
        ("echo '['; echo ']'", "is empty"),
        ("echo '2026/01/02 03:04:05 Failed to lsjson: the token has expired' >&2; exit 1", "the token has expired"),
        (f"echo '['; echo '{line('a')}'; kill -9 $$", "exit code -9"),
        (f"echo '['; echo '{line('a')}'; exec sleep 1000", "said nothing"),
        ("head -c 5000000 /dev/zero", "without an end"),
    ],
)
def test_listing_that_breaks_off_is_no_listing(tmp_path, script, said):
    """C3: whatever happens to rclone, files that were not listed are not missing."""
    program = pretend(tmp_path, script)
    with (
        pytest.raises(CopyUnreachable, match=said),
        RcloneCopy("rclone:x:", program=program, idle_s=1.0 if "sleep" in script else 30.0) as copy,
    ):
        list(copy.list())


def test_file_that_shrinks_while_it_is_read_is_unstable(tmp_path):
    """What ends before its size belongs to no version."""
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "file").write_bytes(b"0123456789")
    with RcloneCopy(f"rclone:disk:{folder}") as copy:
        file = copy.open(b"file")
        (folder / "file").write_bytes(b"01234")
        with pytest.raises(Unstable):
            file.read(0, 10)
        file.close()


def test_machine_without_rclone_says_how_to_install_it(tmp_path):
    """The program is not a part of this one."""
    with pytest.raises(ConfigError, match="install"), RcloneCopy("rclone:x:", program=str(tmp_path / "none")):
        pass


@pytest.mark.parametrize("url", ["rclone:", "rclone:--config=/etc/shadow", "rclone:x\0:"])
def test_url_that_names_no_remote_is_refused(url):
    """What would be an option of rclone is no remote."""
    with pytest.raises(ConfigError, match="REMOTE:PATH"):
        open_copy(url)


def test_interrupt_leaves_no_rclone_behind(tmp_path):
    """Whoever leaves in mid-listing ends the program, also one that doesn't listen."""
    program = pretend(tmp_path, f"trap '' TERM INT; echo '['; echo '{line('a')}'; echo '{line('b')}'; exec sleep 1000")
    with RcloneCopy("rclone:x:", program=program) as copy:
        listing = copy.list()
        next(listing)
        del listing
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    assert "" == children.strip() or not is_sleeping(children)


def is_sleeping(children: str) -> bool:
    return any(b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children.split())
