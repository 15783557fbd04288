"""A copy on another machine, by a real sshd on the loopback: with a shell and without."""

from __future__ import annotations

import hashlib
import os
import pwd
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import blake3
import pytest
import xxhash

from integrity.copies.opening import open_copy
from integrity.copies.protocol import Copy, CopyEntry, Kind, Trouble
from integrity.errors import Unreadable, Unstable, Vanished
from support.machine import need_programs
from support.programs import sh
from support.proxies import LineProxy, LineRules
from support.sshbox import SshBox, make_programs
from support.waiting import wait_until

NAMES = (
    b"plain",
    b"-rf",
    b"new\nline",
    b"back\\slash",
    b"\\nescaped",
    b"bad\xff\xfeutf8",
    "ä".encode(),
    b" blanks ",
    b"it's",
    b'"$(exit 3)`exit 4`',
    b"%41%s",
    b"*",
    b"ends\n",
    b"integrity:begin",
    b"integrity:end",
    b"folder/deeper/file",
    b"folder\n/file\n",
)


def content_of(name: bytes) -> bytes:
    """Make a file's content: its name, so that no two are alike."""
    return name * 100


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Plant odd names, an empty file, links and a FIFO."""
    folder = tmp_path / "copy"
    for name in NAMES:
        path = os.path.join(os.fsencode(folder), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content_of(name))
    (folder / "empty").touch()
    (folder / "link").symlink_to("plain")
    (folder / "outside").symlink_to(tmp_path)
    os.mkfifo(folder / "fifo")
    return folder


def read_all(copy: Copy, path: bytes) -> bytes:
    """Read a whole file."""
    file = copy.open(path)
    try:
        return file.read(0, file.size_bytes)
    finally:
        file.close()


def paths_of(found: Iterator[CopyEntry | Trouble]) -> list[bytes]:
    """Return the paths of a listing that has no trouble."""
    entries = list(found)
    assert [] == [entry for entry in entries if isinstance(entry, Trouble)]
    return sorted(entry.path for entry in entries)


def plant_many(folder: Path, count: int) -> list[bytes]:
    """Make many small files and return their paths."""
    names = []
    for number in range(count):
        name = f"folder-{number % 50:02}/photo-{number:06}.jpeg"
        path = folder / name
        if number < 50:
            path.parent.mkdir(parents=True)
        path.write_bytes(b"%d" % number)
        names.append(name.encode())
    return sorted(names)


# -- listing ----------------------------------------------------------------------------------------------------------


def test_folder_may_have_any_name(each_sshd: SshBox, tmp_path: Path) -> None:
    """The copy's own folder is no less odd than its files, and may be reached through a link."""
    folder = os.path.join(os.fsencode(tmp_path), b"-n '$(exit)%s\\\n\xff\n")
    os.makedirs(folder)
    with open(os.path.join(folder, b"file"), "wb") as file:
        file.write(b"x")
    (tmp_path / "link").symlink_to(os.fsdecode(folder))
    for place in (folder, folder + b"/", os.fsencode(tmp_path / "link")):
        with open_copy(each_sshd.url(place)) as copy:
            assert [b"file"] == paths_of(copy.list())
            assert b"x" == read_all(copy, b"file")


def test_home_folder_is_written_with_a_tilde(sshd: SshBox, tree: Path) -> None:
    """ssh://host/~/folder is below the home folder of the user who logs in."""
    home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    url = sshd.url(tree).replace(str(tree), "/~/" + os.path.relpath(tree, home))
    with open_copy(url) as copy:
        assert [b"plain"] == paths_of(copy.list(b"plain"))
        assert content_of(b"plain") == read_all(copy, b"plain")


def test_listing_may_be_left_in_the_middle(each_sshd: SshBox, tree: Path) -> None:
    """Who stops listing can go on with other things."""
    plant_many(tree / "many", 3000)
    with open_copy(each_sshd.url(tree)) as copy:
        for _ in range(3):
            found = copy.list()
            next(found)
            del found
        assert content_of(b"plain") == read_all(copy, b"plain")


# -- digests ----------------------------------------------------------------------------------------------------------

HASHES = {
    Kind.MD5: lambda data: hashlib.md5(data).digest(),
    Kind.SHA1: lambda data: hashlib.sha1(data).digest(),
    Kind.SHA256: lambda data: hashlib.sha256(data).digest(),
    Kind.SHA512: lambda data: hashlib.sha512(data).digest(),
    Kind.XXH64: lambda data: xxhash.xxh64(data).digest(),
    Kind.XXH3_128: lambda data: xxhash.xxh3_128(data).digest(),
    Kind.BLAKE3: lambda data: blake3.blake3(data).digest(),
}


def test_digests_are_computed_over_there(sshd: SshBox, tree: Path) -> None:
    """Each path comes once in the order asked, with its digest or a trouble; links and FIFOs are not followed."""
    need_programs("xxhsum", "b3sum")
    asked = [b"nowhere", *NAMES, b"link", b"outside/copy/plain", b"fifo", b"../copy/plain", b"empty", b"folder"]
    with open_copy(sshd.url(tree)) as copy:
        assert set(HASHES) == copy.remote_kinds
        for kind, compute in HASHES.items():
            answers = list(copy.digest(asked, kind))

            assert asked == [path for path, _ in answers]
            good = {path: answer for path, answer in answers if isinstance(answer, bytes)}
            assert {**{name: compute(content_of(name)) for name in NAMES}, b"empty": compute(b"")} == good


def test_md5sum_without_nul_is_used_all_the_same(sshd: SshBox, tree: Path, tmp_path: Path) -> None:
    """The md5sum of busybox knows no -z: names that its lines can't carry are asked for one by one."""
    md5sum = shutil.which("md5sum")
    sshd.restart(
        make_programs(tmp_path / "bin", "xargs", "find", md5sum=f'[ "$1" = -z ] && exit 1; exec {md5sum} "$@"'),
    )
    with open_copy(sshd.url(tree)) as copy:
        assert {Kind.MD5} == copy.remote_kinds
        answers = dict(copy.digest([*NAMES, b"nowhere", b"fifo"], Kind.MD5))

    assert {name: hashlib.md5(content_of(name)).digest() for name in NAMES} == {
        path: answer for path, answer in answers.items() if isinstance(answer, bytes)
    }


def test_program_that_computes_something_else_is_not_used(sshd: SshBox, tree: Path, tmp_path: Path) -> None:
    """What is called md5sum is believed only after it got a digest right."""
    sshd.restart(make_programs(tmp_path / "bin", "xargs", "find", md5sum="echo 00000000000000000000000000000000 ' -'"))
    with open_copy(sshd.url(tree)) as copy:
        assert frozenset() == copy.remote_kinds


def test_find_that_is_not_gnu_is_left_for_sftp(sshd: SshBox, tree: Path, tmp_path: Path) -> None:
    """A find that does not know -printf makes no listing; SFTP does, and digests are computed over there as ever."""
    sshd.restart(
        make_programs(tmp_path / "bin", "xargs", "md5sum", find="echo 'find: unrecognized: -printf' >&2; exit 1")
    )
    with open_copy(sshd.url(tree)) as copy:
        assert sorted([*NAMES, b"empty"]) == paths_of(copy.list())
        assert {Kind.MD5} == copy.remote_kinds


def test_words_of_login_scripts_are_skipped(sshd: SshBox, tree: Path) -> None:
    """What a login script prints is not taken for an answer; it spoils SFTP, so there are no bytes then."""
    sshd.restart('ForceCommand sh -c \'printf "Welcome\\\\0 to\\\\n"; eval "$SSH_ORIGINAL_COMMAND"\'')
    with open_copy(sshd.url(tree)) as copy:
        assert sorted([*NAMES, b"empty"]) == paths_of(copy.list())
        (answer,) = copy.digest([b"plain"], Kind.MD5)
        assert (b"plain", hashlib.md5(content_of(b"plain")).digest()) == answer


def test_shell_alone_gives_digests_but_no_bytes(sshd: SshBox, tree: Path) -> None:
    """Without SFTP all but reading works, and the copy says so."""
    sshd.restart("Subsystem sftp /bin/false")
    with open_copy(sshd.url(tree)) as copy:
        assert not copy.has_bytes
        assert sorted([*NAMES, b"empty"]) == paths_of(copy.list())
        with pytest.raises(Unreadable, match="SFTP"):
            copy.open(b"plain")


# -- bytes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "error"),
    [
        (b"nowhere", Vanished),
        (b"link", Vanished),
        (b"../copy/plain", Unreadable),
    ],
)
def test_what_is_no_file_of_the_copy_is_not_opened(
    sshd: SshBox, tree: Path, path: bytes, error: type[Vanished] | type[Unreadable]
) -> None:
    """Links, FIFOs and paths that lead outside are refused, at once."""
    with open_copy(sshd.url(tree)) as copy, pytest.raises(error):
        copy.open(path)


def test_file_that_changes_while_open_is_unstable(sshd: SshBox, tree: Path) -> None:
    """Two pieces of two versions are no piece of any; an open file survives its name."""
    with open_copy(sshd.url(tree)) as copy:
        file = copy.open(b"plain")
        (tree / "plain").rename(tree / "moved")
        assert b"ainpl" == file.read(2, 5)
        os.truncate(tree / "moved", 7)
        with pytest.raises(Unstable):
            file.read(0, 5)
        file.close()


def test_slow_line_loses_nothing(sshd: SshBox, tmp_path: Path) -> None:
    """Bytes that come in dribs and drabs are the bytes."""
    data = random.Random(6).randbytes(300_000)
    (tmp_path / "file").write_bytes(data)
    with LineProxy(sshd.port) as proxy, open_copy(sshd.url(tmp_path, port=proxy.port)) as copy:
        proxy.rules = LineRules(chunk_bytes=1777, pause_s=0.001)
        assert data == read_all(copy, b"file")


# -- logging in -------------------------------------------------------------------------------------------------------


def test_ssh_config_is_followed(sshd: SshBox, tree: Path) -> None:
    """A Host of the config is a host: with its address, port, user, key and known hosts."""
    ssh = sshd.home / ".ssh"
    (ssh / "id_ed25519").rename(ssh / "special")
    (ssh / "known_hosts").rename(ssh / "special_hosts")
    (ssh / "config").write_text(
        f"Host nas\n HostName 127.0.0.1\n Port {sshd.port}\n User {sshd.user}\n IdentityFile {ssh}/special\n"
        f" UserKnownHostsFile ~/.ssh/special_hosts\n",
        encoding="utf-8",
    )
    with open_copy(f"ssh://nas{tree}") as copy:
        assert f"ssh://nas{tree}" == copy.shown
        assert [b"plain"] == paths_of(copy.list(b"plain"))


def test_agent_is_asked_for_keys(sshd: SshBox, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that only the agent holds logs in."""
    need_programs("ssh-agent")
    socket_path = sshd.folder / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket_path)], stdout=subprocess.DEVNULL)
    try:
        wait_until(socket_path.exists, "the agent listens")
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket_path))
        sh("ssh-add", "-q", sshd.home / ".ssh" / "id_ed25519")
        for key in ("id_ed25519", "id_ed25519.pub"):
            (sshd.home / ".ssh" / key).unlink()
        with open_copy(sshd.url(tree)) as copy:
            assert [b"plain"] == paths_of(copy.list(b"plain"))
    finally:
        agent.kill()
        agent.wait()
