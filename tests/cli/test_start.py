"""Starting the program: help, version, global options, and what is loaded for them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from integrity.cli.main import COMMANDS, cli
from support.cli import Box, make_command

HEAVY = (
    "msgspec",
    "psycopg",
    "zstandard",
    "sqlalchemy",
    "apsw",
    "tomllib",
    "watchdog",
    "integrity.catalog",
    "integrity.jobs",
)
PINNED = [
    "scan",
    "scrub",
    "compare",
    "history",
    "inspect",
    "gate",
    "status",
    "findings",
    "explain",
    "versions",
    "repair",
    "protect",
    "accept",
    "ack",
    "mute",
    "setup",
    "config",
    "service",
    "daemon",
    "web",
    "hub",
    "alert",
    "root",
    "forget",
    "catalog",
    "manual",
    "sum",
    "bench",
]
GROUPS = {
    "root": {"list", "release", "rebind", "pause", "resume"},
    "catalog": {"check", "backup", "restore", "upgrade", "salvage", "stats", "export", "import"},
    "alert": {"test"},
    "config": {"check", "show", "sample"},
    "service": {"install", "uninstall", "show"},
    "hub": {"run", "add", "allow", "list", "revoke", "tree", "migrate", "check", "work", "join", "try"},
}


def load(name: str) -> object:
    """Load a command as the program does."""
    return cli.get_command(cli.make_context("integrity", [], resilient_parsing=True), name)


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    """What only some commands need is not paid for by all."""
    heavy = (*HEAVY, "logging", "integrity.config", "integrity.model")
    program = f"import sys, integrity.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_help_loads_nothing_heavy(integrity: Box) -> None:
    """Help answers at once, for each command."""
    program = (
        "import sys; from integrity.cli import main\n"
        f"for words in ([], *([name] for name in {PINNED})):\n"
        f"    print(main([*words, '--help']), words, [name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=integrity.environment, capture_output=True, text=True, check=True
    )

    words = [[], *([name] for name in PINNED)]
    assert [f"0 {each} []" for each in words] == [line for line in done.stdout.splitlines() if line.startswith("0 [")]


def test_help_has_every_command_and_exit_code(integrity: Box) -> None:
    """Commands with what they do, and the table of exit codes."""
    text = integrity.run("--help", expect=0).stdout

    for name, entry in COMMANDS.items():
        assert f"  {name} " in text
        assert entry.help.split(".")[0][:40] in text
    assert ["0", "1", "2", "3", "4", "130"] == re.findall(r"^  (\d+) ", text, re.MULTILINE)


def test_commands_are_the_pinned_ones() -> None:
    """No command is there that is not documented, and none is missing."""
    assert PINNED == list(COMMANDS)
    for name, expected in GROUPS.items():
        assert expected == set(getattr(load(name), "commands", {}))


def test_short_help_is_the_beginning_of_the_long_one() -> None:
    """The list of commands is written down beside the commands, so that nothing need be loaded; both must agree."""
    long = {name: getattr(load(name), "help", "") for name in PINNED}

    assert {name: COMMANDS[name].help for name in PINNED} == {
        name: text.split("\n\n")[0].replace("\n", " ").strip() for name, text in long.items()
    }


def test_version_tells_the_hash_core(integrity: Box) -> None:
    """The version, and what computes MD5."""
    native = integrity.run("--version", expect=0).stdout
    fallback = integrity.run("--version", env={"INTEGRITY_NATIVE": "off"}, expect=0).stdout

    assert re.fullmatch(r"integrity \d+\.\d+\.\d+\nhash core: .+\n", native)
    assert re.fullmatch(r"integrity .+\nhash core: hashlib \(.*INTEGRITY_NATIVE=off\)\n", fallback)


@pytest.mark.parametrize("arguments", [["--version"], ["sum", "/dev/null"], ["--json", "sum", "/dev/null"]])
def test_unknown_word_for_the_c_core_is_one_line_on_stderr(integrity: Box, arguments: list[str]) -> None:
    """It changes nothing else: a misspelt switch is neither obeyed nor hidden."""
    usual = integrity.run(*arguments, expect=0)
    misspelt = integrity.run(*arguments, env={"INTEGRITY_NATIVE": "avx3"}, expect=0)

    assert usual.stdout == misspelt.stdout
    assert "" == usual.stderr
    (line,) = misspelt.stderr.splitlines()
    assert line.startswith("integrity: warning: INTEGRITY_NATIVE=avx3: unknown, and ignored; set one of: off, avx512,")


@pytest.mark.parametrize("setting", ["0", "-0.5", "2", "nan", "inf", "1e-9", "fast", "2s", "0,5", "\udcff"])
def test_wrong_factor_for_the_pauses_is_refused(
    integrity: Box, root: Path, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What confirms damage is not weakened by a slip: nothing is done, and one line says which variable is wrong."""
    monkeypatch.setenv("INTEGRITY_PAUSES", setting)
    done = integrity.run("--json", "scan", root, expect=2)

    (line,) = done.stderr.splitlines()
    assert line.startswith("integrity: INTEGRITY_PAUSES="), line
    assert line.endswith(": must be a factor from 0.001 to 1; it is meant for tests of this program: unset it"), line
    assert not integrity.catalog.exists()


def test_without_command_help_is_shown_and_nothing_done(integrity: Box) -> None:
    """A bare call is a usage error that shows the way."""
    done = integrity.run(expect=2)

    assert "Exit codes" in done.stderr
    assert done.stdout == ""


def test_unknown_command_is_guessed(integrity: Box) -> None:
    """A slip of the pen gets the command that was meant."""
    done = integrity.run("scurb", expect=2)

    assert "Did you mean 'scrub'?" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["scrub", "--due", "--new"],
        ["scrub", "--percent", "0"],
        ["scrub", "--percent", "nan"],
        ["scrub", "--percent", "inf"],
        ["scrub", "--rate", "fast"],
        ["scrub", "--older-than", "3"],
        ["scan", "--jobs", "0"],
        ["mute", "1"],
        ["mute", "1", "--until", "2020-01-01"],
        ["ack"],
        ["ack", "x"],
        ["accept", "x"],
        ["explain"],
        ["root", "rebind", "x"],
        ["--color", "pink", "status"],
        ["--catalog", "mysql://x/y", "status"],
        ["--catalog", "", "status"],
        ["--catalog", "sqlite:///", "status"],
        ["--catalog", "/usr", "scan", "/usr"],
        ["--config", "/nonexistent.toml", "status"],
    ],
)
def test_wrong_usage_is_2_and_changes_nothing(words: list[str], integrity: Box) -> None:
    """Each mistake on the command line is one or two lines on stderr, and no catalog is made."""
    done = integrity.run(*words, expect=2)

    assert done.stdout == ""
    assert all(line.startswith("integrity: ") for line in done.stderr.splitlines())
    assert not integrity.catalog.exists()


def test_folder_in_the_place_of_the_catalog_is_named_as_one(integrity: Box) -> None:
    """Nothing is said of disks that fail, nor of permissions."""
    said = "integrity: /usr: is a folder, and the catalog is a file: name one in it, such as /usr/catalog.db\n"

    assert said == integrity.run("--catalog", "/usr", "status", expect=2).stderr


def test_json_and_the_line_for_monitoring_exclude_each_other(integrity: Box) -> None:
    """With --json there is nothing but objects on stdout: an error, no line of a plug-in."""
    done = integrity.run("--json", "status", "--nagios", expect=2)

    assert ["error"] == [one["type"] for one in done.objects]
    assert "exclude each other" in done.stderr


def test_error_is_an_object_with_json(integrity: Box) -> None:
    """A script sees the message and the exit code without parsing stderr."""
    done = integrity.run("--json", "status", expect=4)

    (error,) = done.objects
    assert ("error", 1, 4) == (error["type"], error["schema"], error["exit_code"])
    assert "integrity scan FOLDER" in str(error["message"])


def test_environment_stands_for_global_options(integrity: Box) -> None:
    """Each global option is also a variable; the command line wins."""
    variables = {"INTEGRITY_CONFIG": "/nonexistent/a.toml", "INTEGRITY_JSON": "1"}
    done = integrity.run("config", "check", env=variables, expect=2)
    option = integrity.run("--config", "/nonexistent/b.toml", "config", "check", env=variables, expect=2)

    assert '"type":"error"' in done.stdout
    assert "/nonexistent/a.toml" in done.stderr
    assert "/nonexistent/b.toml" in option.stderr
    assert str(integrity.catalog) in integrity.run("root", "list", expect=4).stderr


def test_closed_pipe_is_quiet(integrity: Box) -> None:
    """``integrity ... | head`` ends without a word, as other programs do."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        make_command("config", "sample"), env=integrity.environment, stdout=write_end, stderr=subprocess.PIPE
    )
    os.close(write_end)

    assert (141, b"") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("redirection", "reason"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
@pytest.mark.parametrize("is_unbuffered", [False, True])
def test_output_that_can_not_be_written_is_no_success(
    redirection: str, reason: str, is_unbuffered: bool, integrity: Box, root: Path
) -> None:
    """A full disk behind stdout, or a stdout that is closed, is told, whatever was to be printed."""
    integrity.run("scan", root, expect=0)
    for words in (
        *("config sample", "status", "--json status", "status --nagios"),
        *("findings", "--version", "--help", "scan --help"),
    ):
        command = make_command(*words.split())
        # Without a buffer, as in many containers, nothing that could not be written waits for another try.
        command = ["env", "PYTHONUNBUFFERED=1", *command] if is_unbuffered else command
        done = integrity.redirect(command, redirection, root)

        assert (3, f"integrity: can't write the output: {reason}\n".encode()) == (done.returncode, done.stderr), words


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams_disturb_no_job(redirection: str, integrity: Box, root: Path) -> None:
    """Files of the job are not taken for the streams whose descriptors were free; what has nothing to say ends well."""
    (root / "file").write_bytes(b"content")

    assert 0 == integrity.redirect(make_command("-q", "scan", root), redirection, root).returncode
    assert 1 == integrity.summary("scrub", root, expect=0)["files_verified"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_given(shell: str, integrity: Box) -> None:
    """Each of the three shells gets a script to evaluate."""
    done = integrity.run(env={"_INTEGRITY_COMPLETE": f"{shell}_source"}, expect=0)

    assert "_INTEGRITY_COMPLETE" in done.stdout


def test_color_only_when_wanted(integrity: Box, root: Path) -> None:
    """Nothing but a terminal gets escape sequences, unless they are asked for."""
    assert "\x1b" not in integrity.run("scan", root, expect=0).stdout
    assert "\x1b" in integrity.run("--color", "always", "scan", root, expect=0).stdout


def test_current_folder_that_was_removed(integrity: Box, tmp_path: Path) -> None:
    """What needs it says so, and what to do; the rest works."""
    said = "the current folder is gone (No such file or directory); go to another one"
    for words in (
        ("scan", "."),
        ("compare", "/", "--with", "./copy"),
        ("explain", "file"),
        ("sum", "--audit", "-k", "list", "."),
        ("catalog", "export", "--output", "list", "/"),
        ("--config", "other.toml", "config", "show"),
        ("--catalog", "other.db", "status"),
        ("service", "install", "--root", "."),
        ("setup", "--yes", "--no-test", "--root", "."),
        ("service", "show"),
    ):
        script = 'mkdir "$0" && cd "$0" && rmdir "$0" && exec "$@"'
        command = ["sh", "-c", script, tmp_path / "gone", *make_command(*words)]
        done = subprocess.run(command, env=integrity.environment, capture_output=True, check=False, text=True)

        expected = (0, False) if words == ("service", "show") else (2, True)
        assert expected == (done.returncode, said in done.stderr), (words, done.stderr)
