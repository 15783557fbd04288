"""
Write the configuration that ``integrity setup`` agreed on, start the service, and say what happens next.

Also looks for what rotted before today, in backups that keep versions: what is recorded from now on can not show it.

I1  The configuration is written whole, under a free name, or not at all. If the service can't be installed afterwards,
    the message has the command that goes on from there.
"""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from integrity import program
from integrity.alerts.status import sends_messages
from integrity.cli.console import stop_on_signals
from integrity.cli.exitcodes import ExitCode
from integrity.cli.output import OutputError, abandon_stdout
from integrity.cli.setup_flow import SetupResult, ask_everything, finish_page
from integrity.cli.setup_questions import Asker, Dialog, Given, parse_choice, without_interruption, wrap
from integrity.config import Config, default_catalog_path, default_config_path, load_config, parse_config
from integrity.config.copy_urls import keeps_versions
from integrity.config.sample import write_config
from integrity.errors import AppError, ConfigError, CopyUnreachable, ReadInterrupted, show_path
from integrity.files.replace_file import find_obstacle, write_new_file
from integrity.installation import describe_removal
from integrity.jobs.compare.source import make_source
from integrity.jobs.parity.estimate import estimate_time
from integrity.jobs.versions.history import Here, SilentChange, digest_file, find_silent_changes
from integrity.paths import path_fields, shell_path, shell_word
from integrity.service.systemd import units
from integrity.service.systemd.installed import Scope
from integrity.service.systemd.units import UnitState
from integrity.views import setup as views
from integrity.views.copies import describe_silent_change, silent_change_object
from integrity.words.text import count, local_time

if TYPE_CHECKING:
    from integrity.cli.output import Output
    from integrity.cli.session import Session
    from integrity.config import ConfiguredCopy
    from integrity.copies.versions import CopyVersion

_PROPOSED = b".proposed"


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """Whose service is installed; ``why_not``: why none is, empty if one is."""

    scope: Scope
    program: bytes
    why_not: str = ""


def run_setup(session: Session, asker: Asker, given: Given, *, tests: bool, installs: bool) -> int:
    """
    Look, ask, test, write, start.

    Returns:
        The exit code: INCOMPLETE if the mail that was agreed on could not be sent.
    """
    setup = _Setup(session, asker, given, tests=tests, installs=installs)
    try:
        return setup.run()
    except (KeyboardInterrupt, click.Abort):
        try:
            session.output.tell()
            session.output.fail(f"interrupted; {setup.describe_changes()}", ExitCode.INTERRUPTED)
        except (OSError, OutputError):  # the terminal is gone
            abandon_stdout()
        return ExitCode.INTERRUPTED


class _Setup:
    """One run of the command."""

    def __init__(self, session: Session, asker: Asker, given: Given, *, tests: bool, installs: bool) -> None:
        self._session, self._output, self._asker = session, session.output, asker
        self._given, self._tests = given, tests
        self._place = session.config_place
        self._has_config = os.path.lexists(self._place)
        self._base = load_config(self._place) if self._has_config else Config()
        session.config = self._base  # also where --config names a file that is still to be written
        self._plan = self._make_plan(installs=installs)
        self._written: list[bytes] = []
        self._install_options: list[str] = []
        self._is_started = False

    def describe_changes(self) -> str:
        """Say what was changed so far, and how to go on."""
        if not self._written:
            return "nothing was changed"
        done = f"written: {', '.join(map(show_path, self._written))}"
        if self._has_config or self._plan.why_not or self._is_started:
            return done
        return f"{done}; to go on: {self._install_command}"

    @property
    def _user_option(self) -> str:
        return "--user " if self._plan.scope is Scope.USER else ""

    @property
    def _install_command(self) -> str:
        user = ["--user"] if self._plan.scope is Scope.USER else []
        return program.command("service install", *user, *self._install_options, "--now")

    def run(self) -> int:
        self._require_writable()
        self._introduce()
        result = ask_everything(self._make_dialog())
        if self._is_systems:
            choice = result.page
            self._install_options = ["--web"] * choice.is_wanted + ["--allow-repair"] * choice.repairs
        text = self._make_text(result)
        if self._compare(text) if self._has_config else self._write(result, text):
            self._start()
            result = self._let_service_send(result)
            look_back(self._output, result.config.copies, waits=self._asker.asks)
            self._tell_next(result)
        elif self._has_config and not self._asker.asks:
            return ExitCode.INCOMPLETE
        return self._tell_problems(result)

    @property
    def _is_systems(self) -> bool:
        return self._plan.scope is Scope.SYSTEM and not self._plan.why_not

    def _make_dialog(self) -> Dialog:
        gains_privileges = bool(self._plan.why_not) or self._plan.scope is Scope.USER
        is_users = not self._is_systems
        return Dialog(self._session, self._asker, self._given, self._base, gains_privileges, is_users, self._tests)

    def _tell_problems(self, result: SetupResult) -> int:
        """Say which alerts could not be sent; return the exit code."""
        tests = program.command("alert test")
        if result.mail.problem:
            self._output.warn(f"no mail could be sent: {result.mail.problem}; correct [mail], then: {tests}")
        if result.push.problem:
            how = f"correct `apprise` in [alerts], then: {tests}"
            self._output.warn(f"no message to a phone could be sent: {result.push.problem}; {how}")
        return ExitCode.INCOMPLETE if result.mail.problem or result.push.problem else ExitCode.OK

    def _introduce(self) -> None:
        if not self._asker.asks:
            return
        tell = self._output.tell
        tell(wrap("This looks at your disks, asks about ten questions, and changes nothing before the last one."))
        tell(wrap("Enter takes the answer in [brackets]. Ctrl-C leaves everything as it is."))
        if self._has_config:
            tell(wrap(f"{show_path(self._place)} exists and will not be replaced: you will be shown the difference."))
        if self._plan.why_not:
            tell(wrap(f"No service will be installed: {self._plan.why_not}."))
        tell()

    def _make_plan(self, *, installs: bool) -> ServicePlan:
        """
        Find out whether a service can be installed.

        Raises:
            ConfigError: one should be, and its program or its files rule that out.
        """
        scope = Scope.SYSTEM if os.geteuid() == 0 else Scope.USER
        script = units.find_program()
        why_not = self._find_reason(scope, installs=installs)
        if why_not:
            return ServicePlan(scope, script, why_not)
        hint = f"; or, without a service: {program.command('setup --no-service')}"
        if scope is Scope.SYSTEM:
            try:
                units.require_reachable(script)
            except ConfigError as error:
                raise ConfigError(f"{error}{hint}") from error
        files = units.make_units(scope, script)
        if edited := [show_path(file.path) for file in files if units.find_state(file) is UnitState.EDITED]:
            raise ConfigError(
                f"{', '.join(edited)}: edited, or not written by integrity, so setup does not replace it; run:"
                f" {program.command('service install --force')}, which keeps it beside the new one, then setup"
                f" again{hint}"
            )
        return ServicePlan(scope, script)

    def _find_reason(self, scope: Scope, *, installs: bool) -> str:
        if not installs:
            return "as --no-service says"
        if self._place != default_config_path():
            return f"it reads {show_path(default_config_path())}, and --config names another file"
        if self._session.catalog_path != default_catalog_path() and scope is Scope.SYSTEM:
            folder = show_path(os.path.dirname(default_catalog_path()))
            return f"it can write only in {folder}, and the catalog is elsewhere"
        return "" if units.is_running(scope) else "systemd does not run here"

    def _require_writable(self) -> None:
        """
        Find out before the first question whether the last step can succeed.

        Raises:
            ConfigError: the configuration can't be written.
        """
        obstacle = None if self._has_config else find_obstacle(self._place)
        if obstacle is not None:
            raise ConfigError(
                f"{show_path(self._place)}: can't be written: {obstacle}; mend that, or name another file:"
                f" {program.find_program()} --config FILE setup"
            )

    def _make_text(self, result: SetupResult) -> str:
        """Return the configuration as a file, and make sure that it can be read."""
        config = result.config
        if result.mail.password:
            config = replace(config, mail=replace(config.mail, password_file=self._find_password_place()))
        text = write_config(config)
        parse_config(text.encode(), show_path(self._place))
        return text

    def _find_password_place(self) -> bytes:
        place, number = os.path.join(os.path.dirname(self._place), b"mail-password"), 1
        unique = place
        while os.path.lexists(unique):
            number += 1
            unique = place + b"-%d" % number
        return unique

    def _write(self, result: SetupResult, text: str) -> bool:
        """Write the configuration, if the person agrees."""
        tell = self._output.say
        tell()
        tell(f"The configuration, {show_path(self._place)}:")
        for line in views.sum_up_config(result.config, result.page):
            tell(wrap(line))
        what = "Write it" if self._plan.why_not else "Write it, and install and start the service"
        if not self._agrees(f"{what}? yes, no, or show (the file)", text):
            self._output.tell("Nothing was changed.")
            return False
        self._save(self._place, text, password=result.mail.password)
        tell()
        tell(f"{show_path(self._place)}: written")
        self._give(self._place, text, is_written=True)
        return True

    def _agrees(self, question: str, text: str) -> bool:
        while True:
            answer = self._asker.ask(question, "yes", parse_choice("yes", "no", "show"))
            if answer != "show":
                return answer == "yes"
            self._output.tell(text.rstrip("\n"))

    def _compare(self, text: str) -> bool:
        """Show how an existing configuration differs from the proposal; return whether to go on with it as it is."""
        with open(self._place, encoding="utf-8") as file:
            before = file.read()
        if parse_config(before.encode(), "") == parse_config(text.encode(), ""):
            self._output.say(f"{show_path(self._place)}: says all of this already")
            self._give(self._place, before, is_written=False)
            return bool(self._plan.why_not) or self._agrees(
                "Install and start the service? yes, no, or show (the file)", text
            )
        proposed = self._place + _PROPOSED
        lines = difflib.unified_diff(
            before.splitlines(), text.splitlines(), show_path(self._place), show_path(proposed), lineterm=""
        )
        self._output.tell()
        self._output.tell(f"{show_path(self._place)} is kept as it is. This is what setup would change:")
        self._output.tell()
        for line in lines:
            self._output.tell(line)
        self._give(proposed, text, is_written=False)
        if self._asker.asks:
            self._offer(proposed, text)
        else:
            self._tell_choice()
        return False

    def _tell_choice(self) -> None:
        """Say how to go on where nobody was asked: which of the two configurations is right, a person must say."""
        tell, place = self._output.tell, shell_path(self._place)
        tell("\nNothing was changed. To use what is proposed, move the present configuration away and repeat this:")
        tell(f"  mv {place} {place}.old")
        tell("To keep the present one:")
        tell(f"  {program.command('config check') if self._plan.why_not else self._install_command}")

    def _offer(self, proposed: bytes, text: str) -> None:
        """Save a proposal beside the configuration, unless one is there, and say what to do."""
        tell = self._output.tell
        obstacle = "one is there already" if os.path.lexists(proposed) else find_obstacle(proposed)
        if obstacle is not None:
            tell(f"\n{show_path(proposed)}: not written: {obstacle}. Edit {show_path(self._place)} by hand.")
            return
        if not self._agrees(f"Save it as {show_path(proposed)}? yes, no, or show (the file)", text):
            tell("Nothing was changed.")
            return
        self._save(proposed, text)
        place, other = shell_path(self._place), shell_path(proposed)
        tell(f"\n{show_path(proposed)}: written. To use it:")
        tell(
            f"  {program.find_program()} --config {other} config check && mv {place} {place}.old && mv {other} {place}"
        )
        # A reload does not start a page, and does not let a service repair.
        reload = f"systemctl {self._user_option}reload integrity        # or, if no service runs: "
        tell(f"  {'' if self._install_options else reload}{self._install_command}")

    def _save(self, place: bytes, text: str, *, password: str = "") -> None:
        is_system = self._plan.scope is Scope.SYSTEM
        mode, folder_mode = (0o640, 0o750) if is_system else (0o600, 0o700)
        try:
            with without_interruption():
                if password:
                    secret = self._find_password_place()
                    write_new_file(secret, os.fsencode(password) + b"\n", mode=0o600, folder_mode=folder_mode)
                    self._written.append(secret)
                write_new_file(place, text.encode(), mode=mode, folder_mode=folder_mode)
                self._written.append(place)
        except OSError as error:
            while self._written:
                os.unlink(self._written.pop())
            changes = self.describe_changes()
            raise AppError(f"{show_path(place)}: can't be written: {error.strerror}; {changes}") from error

    def _give(self, place: bytes, text: str, *, is_written: bool) -> None:
        self._output.give("config", path_fields("path", place) | {"toml": text, "written": is_written})

    def _start(self) -> None:
        if self._plan.why_not:
            return
        from integrity.cli.service import install

        is_user = self._plan.scope is Scope.USER
        try:
            click.get_current_context().invoke(
                install,
                is_user=is_user,
                root_folder=None,
                now=True,
                has_page="--web" in self._install_options,
                allow_repair="--allow-repair" in self._install_options,
            )
        except AppError as error:
            raise AppError(f"{error}\n{self.describe_changes()}") from error
        self._is_started = True

    def _let_service_send(self, result: SetupResult) -> SetupResult:
        """Have the service send a test message, too: it has another user, other rights, and a sandbox."""
        ways = [one for one in (result.mail, result.push) if one.is_wanted]
        if self._plan.why_not or not self._tests or not ways or any(one.problem for one in ways):
            return result
        from integrity.jobs.actor import find_user
        from integrity.service.control.requests import Act, ActVerb
        from integrity.service.control.socket import find_daemon_of

        try:
            service = find_daemon_of(os.path.realpath(self._session.catalog_path))
            if service is None:
                return _blame(result, "the service does not answer")
            with service:
                service.act(Act(ActVerb.TEST_ALERT, find_user()))
        except AppError as error:
            return _blame(result, f"by the service: {error}")
        what = "mail" if result.mail.is_wanted else "message"
        self._output.say(f"the service has sent a test {what}, too")
        return result

    def _tell_next(self, result: SetupResult) -> None:
        say = self._output.say
        say()
        if self._plan.why_not:
            self._tell_cron(result)
        else:
            self._tell_service(result)
        if not any(root.parity_percent for root in result.config.roots):
            say()
            say(wrap(views.describe_parity(result.size_bytes, max(result.record_s, estimate_time(result.size_bytes)))))
        if result.page.is_wanted:
            say()
            finish_page(self._output, self._asker, result.config.web, result.page, is_running=self._is_systems)
        if result.mail.is_wanted and self._tests and not result.mail.is_confirmed and not result.mail.problem:
            say()
            say("If the test mail does not arrive, nobody will hear of damage. Then correct [mail] in the")
            say(f"configuration, and try again: {program.command('alert test')}")

    def _tell_service(self, result: SetupResult) -> None:
        say, config = self._output.say, result.config
        user = self._user_option
        say("What happens next:")
        for line in views.describe_next(_find_next_steps(result)):
            say(line)
        say()
        say(f"How it does:        {program.command('status')}")
        say(f"Configuration:      {show_path(self._place)}; after a change: systemctl {user}reload integrity")
        say(f"Records:            {show_path(config.catalog)}; a backup of them is made every day")
        say(f"Log:                journalctl {user}-u integrity")
        say(f"To stop it:         systemctl {user}disable --now integrity")
        uninstall = program.command(f"service uninstall {user}".strip())
        say(f"To remove it:       {describe_removal(uninstall)}    (records stay)")

    def _tell_cron(self, result: SetupResult) -> None:
        """Say how to do without a service."""
        say, config = self._output.say, result.config
        job = shell_path(self._plan.program)
        if self._place != default_config_path():
            job += f" --config {shell_path(self._place)}"
        say(wrap(f"No service was installed: {self._plan.why_not}. Record your files now:"))
        say(f"  {program.command('scan')}")
        if units.is_running(self._plan.scope) and self._place == default_config_path():
            say("To install the service later:")
            say(f"  {self._install_command}")
        say(wrap("What it does, mail included, this does as well; start it at boot, by cron say (crontab -e):"))
        say(f"  @reboot  {job} daemon")
        say(wrap("Or let cron verify what is due. It mails what is printed, which is nothing while all is well:"))
        if config.mail.to:
            say(f"  MAILTO={','.join(config.mail.to)}")
        for times, limit in views.make_cron_times(config.schedule.scrub):
            say(f"  {times}  {job} -q scrub --due{limit}")
        for copy in config.copies:
            say(f"  0 3 * * 0  {job} -q compare {shell_path(copy.of)} --with {copy.name}")
        say(f"How it does:  {program.command('status')}")
        say(f"To stop it:   remove these lines; your records stay in {show_path(config.catalog)}")
        say(f"To remove it: {describe_removal()}")


def _blame(result: SetupResult, problem: str) -> SetupResult:
    """Note why the service could send nothing, for the way of which it matters most."""
    if result.mail.is_wanted:
        return replace(result, mail=replace(result.mail, problem=problem))
    return replace(result, push=replace(result.push, problem=problem))


def _find_next_steps(result: SetupResult) -> views.NextSteps:
    """Find out when the service does what for the first time."""
    from integrity.service.schedule.clock import TriggerTimes, local_zone, parse_windows
    from integrity.units import read_schedule

    now, zone, config = int(time.time()), local_zone(), result.config
    windows = parse_windows(config.schedule.scrub, zone)
    compare = TriggerTimes(read_schedule(config.schedule.compare), zone)
    return views.NextSteps(
        record_s=result.record_s,
        scrub_at=None if windows.is_open(now) else windows.next_opening(now),
        inspects=config.defaults.inspect,
        compare_at=compare.next_after(now) if config.copies else None,
        alive_at=now + config.alerts.alive_every_s if sends_messages(config) else None,
    )


def look_back(output: Output, copies: Sequence[ConfiguredCopy], *, waits: bool) -> None:
    """
    Tell which files changed under the same time, according to the versions of each backup.

    Args:
        waits: somebody sees this, and can end it by Ctrl-C; otherwise the command is told.
    """
    for copy in copies:
        if not keeps_versions(copy.url):
            continue
        command = program.command("history", shell_word(copy.name))
        if not waits:
            output.say(wrap(f"To find what rotted before today, in the versions of {copy.name}: {command}"))
            continue
        output.say()
        output.say(wrap(f"Looking for what rotted before today, in {copy.name} (Ctrl-C ends this) ..."))
        try:
            _look_into(output, copy)
        except ReadInterrupted:
            output.say(wrap(f"Ended. To look again: {command}"))
            return
        except (ConfigError, CopyUnreachable) as error:
            output.warn(f"{error}; then look again: {command}")


def _look_into(output: Output, copy: ConfiguredCopy) -> None:
    def tell(version: CopyVersion, number: int, of: int) -> None:
        output.note(f"version {number:,} of {of:,}, of {local_time(version.taken_at)}")

    found = list[SilentChange]()
    with stop_on_signals() as stop:
        for one in find_silent_changes(make_source(copy, copy.url), copy.of, digest_file, stop=stop, tell=tell):
            if isinstance(one, SilentChange):
                found.append(one)
                for line in describe_silent_change(one):
                    output.say(line)
                output.give("silent_change", silent_change_object(one, copy.name))
            else:
                output.warn(f"{show_path(one.path)}: can't be read in {one.version.name}: {one.reason}")
    if not found:
        output.say("No file changed there under the same time.")
        return
    newer = [one for one in found if one.here is Here.NEWER]
    output.say(wrap(f"{count(len(found), 'file')} changed under the same time, before anything was recorded here."))
    if newer:
        output.say("Open those that have the newer content. If one is damaged, its older version is the good one;")
        output.say("once your files are recorded, this shows which backups have that:")
        output.say(f"  {program.command('versions', shell_path(newer[0].path))}")
