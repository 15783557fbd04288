"""
The command ``integrity``: global options, the list of commands, and what becomes of errors.

Only here errors become exit codes. A command is a function in a module of its own that returns an exit code; its module
is imported when it runs or is asked for help.
"""

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

import click

from integrity import program
from integrity.cli.exitcodes import TABLE, ExitCode, code_for_error
from integrity.cli.output import (
    Output,
    OutputError,
    abandon_stdout,
    close_streams,
    open_missing_streams,
    print_line,
)
from integrity.cli.params import TASKS, accept_behind, find_examples, list_repeated, make_options
from integrity.cli.session import Session
from integrity.errors import AppError

_COMPLETE_VARIABLE = "_INTEGRITY_COMPLETE"

_LOST_FOLDER = "the current folder is gone ({}); go to another one, as with `cd`, or name absolute paths"


class CommandEntry(NamedTuple):
    """A command that is not loaded yet: its module below ``integrity.cli``, its name there, what it does."""

    module: str
    name: str
    help: str


SECTIONS = {
    "Check your files and backups": {
        "scan": CommandEntry("scan", "scan", "Record new and changed files, and report moved and missing ones."),
        "scrub": CommandEntry("scan", "scrub", "Re-read recorded files from the disk and check them for damage."),
        "compare": CommandEntry(
            "compare", "compare", "Compare your files with a backup and report which side is damaged."
        ),
        "history": CommandEntry(
            "versions", "history", "Find what rotted before integrity was installed, in the versions of a backup."
        ),
        "inspect": CommandEntry("inspect", "inspect", "Test files by the checksums inside them, without a catalog."),
        "gate": CommandEntry("gate", "gate", "Check whether it is safe to make a backup now (for backup hooks)."),
    },
    "See what was found": {
        "status": CommandEntry(
            "status", "status", "Show the watched folders, when they were verified, and open findings."
        ),
        "findings": CommandEntry("findings", "findings", "List open findings, one per line."),
        "explain": CommandEntry(
            "findings", "explain", "Show everything known about a file: when it was verified, its findings, its copies."
        ),
        "versions": CommandEntry("versions", "versions", "Show which versions of your backups have a file whole."),
    },
    "Act on it": {
        "repair": CommandEntry("repair", "repair", "Repair damaged files from a backup."),
        "protect": CommandEntry("protect", "protect", "Add parity to files, which heals damage without a backup."),
        "accept": CommandEntry("accept", "accept", "Accept the current content of files as correct."),
        "ack": CommandEntry("findings", "ack", "Stop reminders of findings until they change."),
        "mute": CommandEntry("findings", "mute", "Stop reminders of findings until a date."),
    },
    "Run it by itself": {
        "setup": CommandEntry(
            "setup",
            "setup",
            "Set up the service: find your disks and backups, ask a few questions, test, and start it.",
        ),
        "config": CommandEntry("config", "config", "Check or show the configuration, or print a sample."),
        "service": CommandEntry("service", "service", "Install, uninstall, or show the systemd units."),
        "daemon": CommandEntry("daemon", "daemon", "Run the service in the foreground."),
        "web": CommandEntry("web", "web", "Serve the page for browsers."),
        "hub": CommandEntry(
            "hub", "hub", "Run a hub for several boxes: compare their copies, and notice boxes that fall silent."
        ),
        "alert": CommandEntry("alert", "alert", "Send a test alert through every channel."),
    },
    "Manage folders and records": {
        "root": CommandEntry("root", "root", "List, release, rebind, pause, or resume watched folders."),
        "forget": CommandEntry("root", "forget", "Remove files, a watched folder, or a backup copy from the catalog."),
        "catalog": CommandEntry("catalog", "catalog", "Check, back up, restore, or maintain the catalog."),
    },
    "Read on, measure, compute": {
        "manual": CommandEntry("manual", "manual", "Print pages of the manual, such as what a kind of finding means."),
        "sum": CommandEntry("sum", "sum_command", "Compute or check digests of files without a catalog."),
        "bench": CommandEntry(
            "bench", "bench", "Measure how fast this machine can check files, and how long its disks take."
        ),
    },
}
"""The commands by what an owner wants, those first that are met first."""

COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class LazyGroup(click.Group):
    """Know commands by name and load the one that is called."""

    # ruff: noqa: ARG002 - the signatures are click's
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(f"integrity.cli.{entry.module}"), entry.name)
        assert isinstance(command, click.Command)
        accept_behind(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of a command line; click can't guess what was meant, for it knows none of the names."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=list(COMMANDS), ctx=ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Questions and tasks"):
            formatter.write_dl(TASKS)
        for heading, entries in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, entry.help) for name, entry in entries.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code.value), meaning) for code, meaning in TABLE])
        name = program.find_program()
        if name != program.NAME:
            formatter.write_paragraph()
            formatter.write(f"Not on your PATH; for integrity type: {name}\n")


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from integrity import __version__
    from integrity.words.text import describe_core

    print_line(f"integrity {__version__}\nhash core: {describe_core()}")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="COMMAND [ARGS]...",
    params=make_options(),
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.pass_context
def cli(context: click.Context) -> None:
    """
    Detects silent file corruption (bit rot) and checks your backups against it.

    First steps:  integrity scrub FOLDER  (record all files of a folder and verify them);  integrity status.
    As a service:  integrity setup.

    Global options stand before the command or behind it. Each can be set as an environment variable INTEGRITY_<NAME>.
    """
    session = context.obj
    program.repeat_options(lambda: list_repeated(session))
    session.set_up_output()
    if os.environ.get("INTEGRITY_PAUSES"):
        from integrity.pauses import read_pauses  # here, for only tests set it

        read_pauses()  # a wrong value is refused before anything is done


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run one command line.

    Args:
        argv: without the program's name; None for the process's own.
    """
    if argv is not None:
        return _main(list(argv))
    open_missing_streams()
    code = _main(sys.argv[1:])
    # An interrupt that passed through `exec`, as of a module with dataclasses that was being loaded, is remembered by
    # CPython although it was caught: it would end the process by the signal. Another `exec` has it forgotten.
    exec("")  # noqa: S102
    gc.freeze()  # the process ends: nothing is to be collected
    return code


def _main(arguments: list[str]) -> int:
    if _COMPLETE_VARIABLE in os.environ:
        cli.main(arguments, prog_name="integrity", complete_var=_COMPLETE_VARIABLE)  # ends the process
    session = Session()
    _warn_of_environment(session.output)
    try:
        code = _run(arguments, session)
        close_streams()
    except BrokenPipeError:
        abandon_stdout()
        return ExitCode.BROKEN_PIPE
    except OutputError as error:
        abandon_stdout()
        return session.fail(str(error), ExitCode.INCOMPLETE)
    return code


def _warn_of_environment(output: Output) -> None:
    """Warn of a variable that has no effect because its value is misspelt."""
    if os.environ.get("INTEGRITY_NATIVE"):
        from integrity.hashing.native_setting import describe_unknown  # here, for hardly anybody sets it

        warning = describe_unknown()
        if warning is not None:
            output.warn(warning)


def _run(arguments: list[str], session: Session) -> int:
    """Run a command and turn whatever ends it into words and an exit code."""
    try:
        with cli.make_context("integrity", arguments, obj=session) as context:
            result = cli.invoke(context)
            return result if isinstance(result, int) else ExitCode.OK
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "", err=True)
        return ExitCode.USAGE
    except click.ClickException as error:
        if "--json" in arguments:  # perhaps behind what is wrong, and so not parsed
            session.output = session.output._replace(is_json=True)
        return session.fail(_say_usage(error), ExitCode.USAGE)
    except AppError as error:
        return session.fail(str(error), code_for_error(error))
    except (KeyboardInterrupt, click.Abort):
        return session.fail("interrupted; what was done is kept", ExitCode.INTERRUPTED)
    except (BrokenPipeError, OutputError):
        raise
    except Exception as error:  # the top: a bug is one line for the user, not a page
        if isinstance(error, OSError) and error.filename is None and _is_folder_lost():
            return session.fail(_LOST_FOLDER.format(error.strerror), ExitCode.USAGE)
        if isinstance(error, OSError) and _is_of_echo(error):
            raise OutputError(error) from error
        if session.output.verbosity:
            import traceback

            traceback.print_exc()
        text = f"this is a bug in integrity: {type(error).__name__}: {error}; run again with -v to see where"
        return session.fail(text, ExitCode.INCOMPLETE)


def _is_of_echo(error: OSError) -> bool:
    """Return whether click could not print: it writes help itself."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code is click.echo.__code__


def _is_folder_lost() -> bool:
    """Return whether the current folder was removed, or its mount is gone, so that no relative path leads anywhere."""
    try:
        os.getcwdb()
    except OSError:
        return True
    return False


def _say_usage(error: click.ClickException) -> str:
    """Say what is wrong with a command line, and where to look."""
    message = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    words = context.command_path.split(" ")[1:] if context is not None else []
    name = program.find_program()
    if isinstance(error, click.NoSuchOption) and any(error.option_name in param.opts for param in cli.params):
        message = f"{error.option_name} stands before the command: {' '.join([name, error.option_name, *words])} ..."
    if isinstance(error, click.MissingParameter) and context is not None:
        message += "".join(
            f"\nfor example: {program.spell_command(one)}" for one in find_examples(context.command.epilog)[:1]
        )
    return f"{message}\ntry: {' '.join([name, *words, '--help'])}"
