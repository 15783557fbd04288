import errno
import os
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integrity.files.open_beneath import STAY_ON_MOUNT, open_beneath, stat_beneath
from support.mounts import bound, small_tmpfs
from support.privileges import as_nobody
from support.proc import count_descriptors
from support.seccomp import pass_without

OPENAT2 = 437


def write(root_fd: int, name: bytes, content: bytes = b"content") -> None:
    fd = os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=root_fd)
    os.write(fd, content)
    os.close(fd)


def read(root_fd: int, path: bytes) -> bytes:
    fd = open_beneath(root_fd, path, os.O_RDONLY)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def make_deep(root_fd: int, components: list[bytes]) -> bytes:
    """Make folders in each other, whatever the length of the path, and a file in the last one."""
    folder = os.dup(root_fd)
    for component in components:
        os.mkdir(component, dir_fd=folder)
        deeper = os.open(component, os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    write(folder, b"file", b"deep")
    os.close(folder)
    return b"/".join([*components, b"file"])


def test_file_in_a_folder_is_opened_close_on_exec(root_fd: int) -> None:
    """A descriptor leads to the file and is not inherited by programs that are run."""
    os.mkdir(b"folder", dir_fd=root_fd)
    write(root_fd, b"folder/a\n\xff")

    fd = open_beneath(root_fd, b"folder/a\n\xff", os.O_RDONLY)

    assert os.read(fd, 100) == b"content"
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_empty_path_is_the_root_itself(root_fd: int) -> None:
    """The root has the empty path."""
    fd = open_beneath(root_fd, b"", os.O_RDONLY | os.O_DIRECTORY)

    assert os.path.samestat(os.fstat(fd), os.fstat(root_fd))
    os.close(fd)
    assert os.path.samestat(stat_beneath(root_fd, b""), os.fstat(root_fd))


@pytest.mark.parametrize("path", [b"/etc/passwd", b"..", b"../x", b"folder/../../x", b"folder/../x", b"folder/.."])
def test_path_out_of_the_root_is_refused(root_fd: int, path: bytes) -> None:
    """Neither an absolute path nor one with two dots is followed."""
    os.mkdir(b"folder", dir_fd=root_fd)
    write(root_fd, b"x")

    with pytest.raises(OSError, match="leaves") as caught:
        open_beneath(root_fd, path, os.O_RDONLY)

    assert caught.value.errno == errno.EXDEV
    assert caught.value.filename == path


def test_only_a_whole_name_of_dots_leads_up_and_a_nul_byte_ends_no_path(root_fd: int) -> None:
    """Two dots within a name mean nothing; what is named by the beginning of a path is not opened."""
    write(root_fd, b"..a..b..")
    write(root_fd, b"x")

    assert read(root_fd, b"..a..b..") == b"content"
    with pytest.raises(OSError, match="NUL") as caught:
        open_beneath(root_fd, b"x\0y", os.O_RDONLY)
    assert caught.value.errno == errno.EINVAL


@pytest.mark.parametrize("path", [b"link", b"folder/link", b"to-folder/x", b"to-self/x", b"magic/x"])
def test_symbolic_link_is_followed_nowhere(root_fd: int, path: bytes) -> None:
    """A link is refused at the end of a path and on the way, even if it stays inside."""
    os.mkdir(b"folder", dir_fd=root_fd)
    write(root_fd, b"folder/x")
    os.symlink(b"folder/x", b"link", dir_fd=root_fd)
    os.symlink(b"x", b"folder/link", dir_fd=root_fd)
    os.symlink(b"folder", b"to-folder", dir_fd=root_fd)
    os.symlink(b"to-self", b"to-self", dir_fd=root_fd)
    os.symlink(b"/proc/self/cwd", b"magic", dir_fd=root_fd)

    with pytest.raises(OSError, match=r".") as caught:
        open_beneath(root_fd, path, os.O_RDONLY)
    assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)
    assert caught.value.filename == path
    if path.endswith(b"/x"):
        with pytest.raises(OSError, match=r".") as caught:
            stat_beneath(root_fd, path)
        assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (b"nothing", errno.ENOENT),
        (b"nothing/x", errno.ENOENT),
        (b"x/y", errno.ENOTDIR),
        (b"a" * 256, errno.ENAMETOOLONG),
    ],
)
def test_error_names_the_whole_path(root_fd: int, path: bytes, code: int) -> None:
    """What the system says comes as an OSError with the path that was asked for."""
    write(root_fd, b"x")

    for function in (lambda: open_beneath(root_fd, path, os.O_RDONLY), lambda: stat_beneath(root_fd, path)):
        with pytest.raises(OSError, match=r".") as caught:
            function()
        assert (caught.value.errno, caught.value.filename) == (code, path)


def test_fifo_without_a_writer_does_not_block(root_fd: int) -> None:
    """Opening a FIFO that nobody writes to returns at once."""
    os.mkfifo(b"fifo", dir_fd=root_fd)

    fd = open_beneath(root_fd, b"fifo", os.O_RDONLY)

    assert stat.S_ISFIFO(os.fstat(fd).st_mode)
    os.close(fd)


def test_stat_says_what_lstat_says(root_fd: int, tmp_path: Path) -> None:
    """A file, a folder and a link are described themselves."""
    os.mkdir(b"folder", dir_fd=root_fd)
    write(root_fd, b"folder/x")
    os.symlink(b"x", b"folder/link", dir_fd=root_fd)
    os.mkfifo(b"folder/fifo", dir_fd=root_fd)

    for path in (b"folder", b"folder/x", b"folder/link", b"folder/fifo"):
        assert stat_beneath(root_fd, path) == os.lstat(os.path.join(os.fsencode(tmp_path), b"root", path))


def test_folder_that_may_be_entered_but_not_listed_is_passed_through(root_fd: int) -> None:
    """To open a file in a folder, the right to enter the folder is enough."""
    os.mkdir(b"folder", dir_fd=root_fd)
    write(root_fd, b"folder/x")
    os.chmod(b"folder", 0o311, dir_fd=root_fd)
    os.chmod(root_fd, 0o755)

    with as_nobody():
        assert read(root_fd, b"folder/x") == b"content"


def test_noatime_refused_by_the_kernel_is_eperm(root_fd: int) -> None:
    """Only the owner may ask to leave the atime alone: EPERM, which doesn't mean that a system call is missing."""
    if os.geteuid() != 0:
        pytest.skip("needs root: a file of somebody else")
    write(root_fd, b"x")

    with as_nobody(), pytest.raises(PermissionError) as caught:
        open_beneath(root_fd, b"x", os.O_RDONLY | os.O_NOATIME)

    assert (caught.value.errno, caught.value.filename) == (errno.EPERM, b"x")


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(1, 255), min_size=1, max_size=60), mark=st.integers(1, 255).filter(lambda b: b != 47)
)
def test_path_of_any_length_is_opened(root_fd: int, lengths: list[int], mark: int) -> None:
    """A path may be longer than any one system call takes."""
    components = [bytes([97 + mark % 26]) + bytes([mark]) * (length - 1) for length in lengths]
    before = count_descriptors()
    path = make_deep(root_fd, components)
    try:
        assert read(root_fd, path) == b"deep"
        assert stat_beneath(root_fd, path).st_size == 4
        with pytest.raises(FileNotFoundError) as caught:
            open_beneath(root_fd, path[:-1], os.O_RDONLY)
        assert caught.value.filename == path[:-1]
    finally:
        subprocess.run(
            [b"rm", b"-r", b"--", components[0]], cwd=f"/proc/self/fd/{root_fd}", pass_fds=[root_fd], check=True
        )
    assert count_descriptors() == before


@pytest.mark.parametrize("length", [4094, 4095, 4096, 4097, 8190, 8191, 8192])
def test_path_at_the_limit_of_one_call_is_opened(root_fd: int, length: int) -> None:
    """The borders of PATH_MAX, and of twice that, are no borders here."""
    folders = [b"d" * 99] * ((length - 6) // 100)
    folders.append(b"e" * (length - len(b"/".join(folders)) - len(b"//file")))
    path = make_deep(root_fd, folders)

    assert len(path) == length
    assert read(root_fd, path) == b"deep"
    assert read(root_fd, path.replace(b"/e", b"///e")) == b"deep"
    subprocess.run(["rm", "-r", "--", "d" * 99], cwd=f"/proc/self/fd/{root_fd}", pass_fds=[root_fd], check=True)


def test_link_in_a_path_longer_than_one_call_is_not_followed(root_fd: int) -> None:
    """The pieces of a long path are as strict as a short one."""
    make_deep(root_fd, [b"d" * 200] * 30)
    os.symlink(b"d" * 200, b"link", dir_fd=root_fd)

    with pytest.raises(OSError, match=r".") as caught:
        open_beneath(root_fd, b"/".join([b"link", *[b"d" * 200] * 29, b"file"]), os.O_RDONLY)

    assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)
    subprocess.run(["rm", "-r", "--", "d" * 200], cwd=f"/proc/self/fd/{root_fd}", pass_fds=[root_fd], check=True)


@pytest.mark.root
def test_other_mount_is_refused_to_those_who_stay(root_fd: int, tmp_path: Path) -> None:
    """A mounted file system and a bind mount of the same one are EXDEV, at the end and on the way."""
    folder = tmp_path / "root"
    (folder / "plain").mkdir()
    (folder / "bind").mkdir()
    write(root_fd, b"plain/x")

    with small_tmpfs(folder / "tmpfs", 1 << 20), bound(folder / "plain", folder / "bind"):
        assert read(root_fd, b"bind/x") == b"content"
        for path in (b"tmpfs", b"bind", b"bind/x"):
            with pytest.raises(OSError, match=r".") as caught:
                open_beneath(root_fd, path, os.O_RDONLY | STAY_ON_MOUNT)
            assert (caught.value.errno, caught.value.filename) == (errno.EXDEV, path)
        os.close(open_beneath(root_fd, b"plain/x", os.O_RDONLY | STAY_ON_MOUNT))
        os.close(open_beneath(root_fd, b"", os.O_PATH | STAY_ON_MOUNT))


@pytest.mark.parametrize(
    ("code", "modules"),
    [(errno.ENOSYS, ["unit/test_opening.py", "unit/test_walk.py"]), (errno.EPERM, ["unit/test_opening.py"])],
)
def test_without_openat2_all_of_this_holds(code: int, modules: list[str]) -> None:
    """On an old kernel, or behind a container's filter, folder after folder is opened, and just as strictly."""
    pass_without(OPENAT2, code, *modules)
