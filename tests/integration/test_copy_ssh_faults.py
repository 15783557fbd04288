"""A copy by SSH on a bad day: nothing is taken for missing, and what is the matter is said in words."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integrity.copies.opening import open_copy
from integrity.copies.protocol import Copy, CopyEntry, Kind, Trouble
from integrity.copies.ssh.copy import SshCopy
from integrity.copies.ssh.shell import Records, make_list, parse_complaint, parse_entry, split_complaints
from integrity.errors import ConfigError, CopyUnreachable
from support.faultfs import FaultFS, Rule
from support.machine import need_programs
from support.privileges import let_in
from support.proxies import LineProxy, LineRules
from support.sshbox import SFTP_ONLY, SshBox, replace_programs
from support.waiting import wait_until

FILES = 2000
LONG = "a-file-with-a-name-that-is-long-enough-for-few-files-to-fill-what-is-buffered-on-the-way"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Plant some files."""
    return plant(tmp_path / "copy", 20)


@pytest.fixture
def large_tree(tmp_path: Path) -> Path:
    """Plant many files."""
    return plant(tmp_path / "copy", FILES)


def plant(folder: Path, count: int) -> Path:
    """Plant files with long names."""
    for number in range(count):
        path = folder / f"folder-{number % 20}" / f"{LONG}-{number:05}"
        if number < 20:
            path.parent.mkdir(parents=True)
        path.write_bytes(b"%d" % number)
    return folder


def connect(url: str, *, timeout_s: float = 20.0) -> str:
    """Try to connect, and return why it did not work."""
    with pytest.raises(CopyUnreachable) as caught, SshCopy(url, timeout_s=timeout_s):
        pass
    return str(caught.value)


# -- who is there -----------------------------------------------------------------------------------------------------


def test_unknown_host_key_is_refused(sshd: SshBox, tree: Path) -> None:
    """Nobody is trusted at first sight, whatever the config says of asking, nor where it has no file of known hosts."""
    known = sshd.home / ".ssh" / "known_hosts"
    (sshd.home / ".ssh" / "config").write_text("UserKnownHostsFile none\n", encoding="utf-8")
    assert "host key is not known" in connect(sshd.url(tree))
    known.unlink()
    (sshd.home / ".ssh" / "config").write_text("Host *\n StrictHostKeyChecking no\n", encoding="utf-8")
    for _ in range(2):
        message = connect(sshd.url(tree))
        assert "host key is not known" in message
        assert f"ssh -p {sshd.port} {sshd.user}@127.0.0.1" in message
        known.touch()


def test_changed_host_key_is_refused(sshd: SshBox, tree: Path) -> None:
    """Another machine in its place is told from one that was never seen."""
    sshd.make_host_key()
    sshd.restart()

    assert "host key has changed" in connect(sshd.url(tree))


def test_refused_login_says_what_to_try(sshd: SshBox, tree: Path) -> None:
    """A key that is not let in is an error with the command that must work."""
    (sshd.folder / "authorized_keys").write_text("", encoding="ascii")
    message = connect(sshd.url(tree))

    assert "login was refused" in message
    assert f"ssh -p {sshd.port} {sshd.user}@127.0.0.1" in message


def test_machine_that_is_not_there_is_unreachable(sshd: SshBox, tree: Path) -> None:
    """Nobody listens, the name is unknown, the line is dead: each is said as it is."""
    with LineProxy(sshd.port) as proxy:
        proxy.rules = LineRules(hang_after=0)
        assert "no answer within 0.5 s" in connect(sshd.url(tree, port=proxy.port), timeout_s=0.5)
        proxy.rules = LineRules(cut_after=10)
        assert "reset by peer" in connect(sshd.url(tree, port=proxy.port))
    sshd.stop()
    assert "connection was refused" in connect(sshd.url(tree))
    assert "can't be resolved" in connect(f"ssh://nobody.invalid{tree}")


def test_folder_that_is_not_there_is_unreachable(each_sshd: SshBox, tree: Path) -> None:
    """A folder that is missing, or is a file, is no empty copy."""
    assert "path right" in connect(each_sshd.url(tree / "nowhere"))
    assert "folder" in connect(each_sshd.url(tree / "folder-0" / f"{LONG}-00000"))


def test_account_with_nothing_is_unreachable(sshd: SshBox, tree: Path) -> None:
    """An account that neither runs commands nor has SFTP is no copy."""
    sshd.restart("ForceCommand echo 'This account is not available.'; exit 1")

    assert "neither a shell nor SFTP" in connect(sshd.url(tree))


def test_broken_ssh_config_is_a_config_error(sshd: SshBox, tree: Path) -> None:
    """What the ssh config says wrong is said with its file and line."""
    (sshd.home / ".ssh" / "config").write_text("Port many\n", encoding="utf-8")
    copy = open_copy(f"ssh://127.0.0.1{tree}")
    with pytest.raises(ConfigError, match="config line 1"), copy:
        pass


# -- in the middle ----------------------------------------------------------------------------------------------------

Work = Callable[[Copy], Iterator[object]]


def _list(copy: Copy) -> Iterator[object]:
    return copy.list()


def _digest(copy: Copy) -> Iterator[object]:
    names = [f"folder-{n % 20}/{LONG}-{n:05}".encode() for n in range(FILES)]
    return copy.digest(names, Kind.MD5)


def _read(copy: Copy) -> Iterator[object]:
    file = copy.open(b"large")
    try:
        for offset in range(0, file.size_bytes, 10_000):
            yield file.read(offset, 10_000)
    finally:
        file.close()


@pytest.mark.parametrize("work", [_list, _digest, _read])
@pytest.mark.parametrize("how", ["reset", "silent"])
def test_lost_connection_is_no_end(sshd: SshBox, large_tree: Path, work: Work, how: str) -> None:
    """A line that is cut or falls silent ends nothing in order; the copy stays lost."""
    with open(large_tree / "large", "wb") as file:
        file.truncate(20_000_000)
    with LineProxy(sshd.port) as proxy, SshCopy(sshd.url(large_tree, port=proxy.port), timeout_s=4.0) as copy:
        if how == "reset":
            proxy.rules = LineRules(cut_after=proxy.received + 140_000)
        else:
            proxy.rules = LineRules(hang_after=proxy.received + 140_000)
        items = work(copy)
        next(items)
        with pytest.raises(CopyUnreachable, match=r"lost|no answer|early"):
            for _ in items:
                pass
        with pytest.raises(CopyUnreachable):
            list(copy.list())


def test_lost_connection_is_no_end_of_a_listing_by_sftp(sshd: SshBox, large_tree: Path) -> None:
    """The same holds where there is no shell."""
    sshd.restart(SFTP_ONLY)
    with LineProxy(sshd.port) as proxy, open_copy(sshd.url(large_tree, port=proxy.port)) as copy:
        proxy.rules = LineRules(cut_after=proxy.received + 40_000)
        with pytest.raises(CopyUnreachable):
            list(copy.list())


def test_killed_server_is_no_end(sshd: SshBox, tree: Path, tmp_path: Path) -> None:
    """When all that serves a connection is killed, what came until then is not all."""
    script = "printf '%s\\0' '{}'; exec {} 600"
    sleep = shutil.which("sleep")
    digest = "d41d8cd98f00b204e9800998ecf8427e  ./one"
    sshd.restart(
        replace_programs(
            tmp_path / "bin", find=script.format("5 1.0 ./one", sleep), md5sum=script.format(digest, sleep)
        )
    )
    for work in (lambda copy: copy.list(), lambda copy: copy.digest([b"one", b"two"], Kind.MD5)):
        with open_copy(sshd.url(tree)) as copy:
            (tree / "one").touch()
            items = work(copy)
            assert b"one" == next(items)[0]
            sshd.kill_connections()
            with pytest.raises(CopyUnreachable, match=r"lost|early"):
                next(items)


def test_killed_find_leaves_a_trouble_of_all(sshd: SshBox, tree: Path, tmp_path: Path) -> None:
    """When find is killed over there, the listing was not whole, and says so of all that was asked for."""
    sshd.restart(replace_programs(tmp_path / "bin", find="printf '5 1.0 ./one\\0'; kill -9 $$"))
    with open_copy(sshd.url(tree)) as copy:
        entry, *troubles = copy.list()

    assert CopyEntry(b"one", 5, 1_000_000_000) == entry
    assert all(isinstance(trouble, Trouble) and trouble.path == b"" for trouble in troubles)
    assert isinstance(troubles[-1], Trouble)
    assert "137" in troubles[-1].message


def test_killed_shell_makes_the_copy_unreachable(sshd: SshBox, tree: Path, tmp_path: Path) -> None:
    """When the shell itself is killed, all that came looks whole but for its end."""
    sshd.restart(replace_programs(tmp_path / "bin", find="printf '5 1.0 ./one\\0'; kill -9 $PPID"))
    with open_copy(sshd.url(tree)) as copy, pytest.raises(CopyUnreachable, match="early"):
        list(copy.list())


def test_hostile_listing_is_refused_by_name(sshd: SshBox, tree: Path, tmp_path: Path) -> None:
    """Paths that lead outside, or are none, come as troubles; nothing outside is touched."""
    names = ["../up", "/etc/passwd", "./a/../../b", "./", "./a//b", "./a/./b", "./good"]
    lines = "".join(f"printf '7 1.0 %s\\0' '{name}'; " for name in names)
    sshd.restart(replace_programs(tmp_path / "bin", find=lines))
    with open_copy(sshd.url(tree)) as copy:
        *troubles, entry = copy.list()
        (beside,) = [found for found in copy.list(b"good") if found.path == b"good"]

    assert CopyEntry(b"good", 7, 1_000_000_000) == entry == beside
    assert len(names) - 1 == len(troubles)
    assert all(isinstance(trouble, Trouble) for trouble in troubles)


@pytest.mark.parametrize("noise", ["head -c 300000 /dev/zero | tr '\\0' x", "printf 'no listing\\0'"])
def test_what_is_no_listing_is_not_waited_for(sshd: SshBox, tree: Path, tmp_path: Path, noise: str) -> None:
    """An answer without end or sense fills no memory and is no listing."""
    sshd.restart(replace_programs(tmp_path / "bin", find=f"PATH=/usr/bin:/bin; {noise}"))
    with (
        open_copy(sshd.url(tree)) as copy,
        pytest.raises(CopyUnreachable, match=r"no answer to what was asked|no find"),
    ):
        list(copy.list())


def test_listing_without_end_is_handed_on_as_it_comes(sshd: SshBox, tree: Path, tmp_path: Path) -> None:
    """And ends over there when nobody takes it any more."""
    sshd.restart(replace_programs(tmp_path / "bin", find="while :; do printf '7 1.0 ./again\\0'; done"))
    with open_copy(sshd.url(tree)) as copy:
        listing = copy.list()
        for _ in range(5_000):
            assert CopyEntry(b"again", 7, 1_000_000_000) == next(listing)
    wait_until(lambda: not sshd.find_connections(), "sshd has ended the session")


# -- what can't be looked at ------------------------------------------------------------------------------------------


@pytest.mark.root
def test_folder_that_can_not_be_listed_is_a_trouble(each_sshd: SshBox, faulty: FaultFS, tmp_path: Path) -> None:
    """A folder on a dying disk is a trouble with its path; what is beside it is listed."""
    for name in ("good", "b\xe4d\n"):
        (tmp_path / "source" / name).mkdir()
        (tmp_path / "source" / name / "file").write_bytes(b"x")
    # OpenSSH's SFTP server takes a folder that fails in the middle for one that ends there.
    faulty.add(Rule("readdir" if not each_sshd.options else "opendir", path="*b*d*", errno="EIO"))
    with open_copy(each_sshd.url(faulty.folder)) as copy:
        found = {item.path: item for item in copy.list()}

    assert {b"good/file", "b\xe4d\n".encode()} == set(found)
    assert isinstance(found["b\xe4d\n".encode()], Trouble)


@pytest.mark.root
def test_one_file_is_found_where_its_folder_can_not_be_listed(
    each_sshd: SshBox, faulty: FaultFS, tmp_path: Path
) -> None:
    """Asked for by its path, a file is there although the listing of its folder has lost it."""
    (tmp_path / "source" / "bad").mkdir()
    (tmp_path / "source" / "bad" / "file").write_bytes(b"x")
    faulty.add(Rule("readdir", path="*bad*", errno="EIO"))
    with open_copy(each_sshd.url(faulty.folder)) as copy:
        (found,) = copy.list(b"bad/file")

    assert b"bad/file" == found.path
    assert isinstance(found, CopyEntry)


def test_denied_folder_is_a_trouble(tmp_path: Path) -> None:
    """What the user over there may not enter is a trouble, also when it is what was asked for."""
    need_programs("setpriv")
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody from whom a folder is kept")
    (tmp_path / "closed" / "deep").mkdir(parents=True)
    (tmp_path / "closed" / "deep" / "file").touch()
    (tmp_path / "open").touch()
    let_in(tmp_path)
    (tmp_path / "closed").chmod(0o700)

    assert {b"open", b"closed"} == set(run_list(tmp_path, b""))
    assert [b"closed"] == run_list(tmp_path, b"closed")
    assert [b"closed/deep"] == run_list(tmp_path, b"closed/deep")
    assert [] == run_list(tmp_path, b"open/deep") == run_list(tmp_path, b"nowhere/deep")


def run_list(folder: Path, prefix: bytes) -> list[bytes]:
    """Run the listing's command as nobody, and return the paths of what it found and of its troubles."""
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c"]
    done = subprocess.run([*command, make_list(os.fsencode(folder), prefix)], capture_output=True, check=True)
    records = Records()
    found = [parse_entry(record, prefix) for record in records.feed(done.stdout) if record]
    complaints = [parse_complaint(line, prefix) for line in split_complaints(done.stderr)]
    assert records.status is not None
    return [item.path for item in (*found, *complaints) if item is not None]
