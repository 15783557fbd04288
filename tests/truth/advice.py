"""
Carry out what the program advises, to the letter, and see whether the last good content of each file is left.

Placeholders are filled as a reader fills them. What only looks is left out. Words such as "run the backup" are done as
the manual does them. ``integrity`` gets the files of one command together, as it takes several.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from support.cli import JsonObject
from truth.lives import Life
from truth.oracle import Judge, Result
from truth.worlds import World

_MANUAL = Path(__file__).parents[2] / "docs/copies.md"
_BACKUP = "rsync -a --backup --suffix=.old"
_OTHER_STEP_CHANCE = 0.3
_COMMAND = re.compile(r"(?<![\w/.-])(?:integrity (?:repair|accept)|cp -|rsync -|mv )[^\n;]*")
_LOOKS = re.compile(
    r"^(integrity (compare|scrub|scan|explain|manual|findings|status|root|catalog|versions)|smartctl|cmp|diff|ls)\b"
)
_RUN_BACKUP = re.compile(r"\b(run the backup|back (it|the file) up)\b", re.IGNORECASE)
_COPY_OVER = re.compile(r"\bcopy (this one|the|your) file over\b", re.IGNORECASE)


class Adviser:
    """
    A reader who does what is advised.

    Args:
        world: in which it is done.
        judge: takes the errors.
        result: takes what was tried.
    """

    def __init__(self, world: World, judge: Judge, result: Result) -> None:
        self._world, self._judge, self._result = world, judge, result
        self._done: dict[str, list[str]] = {}

    def follow(self, said: Iterable[JsonObject]) -> None:
        """Carry out what findings advise, and compare what exists before and after."""
        before = self._world.find_contents()
        groups: dict[tuple[str, str], set[str]] = {}
        shell: list[str] = []
        for finding in said:
            life = self._find_life(finding)
            if finding["type"] != "finding" or life is None:
                continue
            for command in self._find_commands(finding, life):
                self._done.setdefault(life.name, []).append(command)
                path = shlex.quote(str(self._world.root.folder / life.name))
                verb = command.replace(path, "FILE").replace(life.name, "NAME")
                self._result.tried[self._generalize(verb)] += 1
                head, found, tail = command.partition(path)
                if command.startswith("integrity ") and found:
                    groups.setdefault((head, tail), set()).add(path)
                else:
                    shell.append(command)
        for (head, tail), paths in groups.items():
            self._run([f"{head}{' '.join(sorted(paths))}{tail}"])
        self._run(shell)
        self._check(before, self._world.find_contents())

    def _run(self, commands: Sequence[str]) -> None:
        script = "\n".join(commands)
        environment = {**self._world.box.environment, "TZ": "UTC"}
        subprocess.run(["bash", "-c", script], env=environment, capture_output=True, timeout=240, check=False)

    def _check(self, before: set[bytes], after: set[bytes]) -> None:
        for life in self._world.lives.values():
            lost = [each for each in life.honest if life.is_last(each, before) and each in before - after]
            if lost:
                versions = [version.number for each in lost if (version := life.get_version(each)) is not None]
                text = f"version {versions} existed and is gone after: {'; '.join(self._done.get(life.name, []))}"
                self._judge.add_error("O4", life, text)

    def _find_life(self, finding: JsonObject) -> Life | None:
        root = self._world.root.folder
        return next((life for name, life in self._world.lives.items() if str(root / name) == finding["path"]), None)

    def _find_commands(self, finding: JsonObject, life: Life) -> Iterator[str]:
        """Return what a reader types: mostly the first step, sometimes another, and what the message itself says."""
        steps = finding["next_steps"]
        assert isinstance(steps, list)
        step = steps[0] if steps else {"words": "", "command": None}
        if len(steps) > 1 and life.chance.random() < _OTHER_STEP_CHANCE:
            step = life.chance.choice(steps)
        texts = [str(step["command"] or ""), *_COMMAND.findall(str(step["words"]))]
        texts += _COMMAND.findall(str(finding["message"]))
        commands = [text for text in texts if text and not _LOOKS.match(text)]
        yield from filter(None, (self._fill(command, finding) for command in commands))
        if not commands:
            yield from self._do_words(f"{step['words']} {finding['message']}", finding, life)

    def _fill(self, command: str, finding: JsonObject) -> str:
        """Fill in what a reader fills in; nothing, if it needs what nobody here has."""
        command = re.sub(r"[.,:)]+$", "", command.strip())
        if re.search(r"\b(DISK|NEW|OLD|UNTIL)\b", command):
            return ""
        copy = str(finding["copy"] or next(iter(self._world.copies), ""))
        others = [name for name in self._world.copies if name != copy]
        for word, value in (("COPY", copy), ("OTHER", others[0] if others else copy), ("WHY", "because")):
            command = re.sub(rf"\b{word}\b", value, command)
        is_plan = command.startswith("integrity repair ") and "--apply" not in command
        return f"{command} --apply" if is_plan else command

    def _do_words(self, words: str, finding: JsonObject, life: Life) -> Iterator[str]:
        place = self._world.copies.get(str(finding["copy"]))
        if place is None or not place.holds_files:
            return
        source, target = self._world.root.path(life.name), place.path(life.name)
        if _COPY_OVER.search(words):
            yield f"cp -p {shlex.quote(str(source))} {shlex.quote(str(target))}"
        elif _RUN_BACKUP.search(words):
            has_backup = _BACKUP in _MANUAL.read_text(encoding="utf-8")
            rsync = _BACKUP if has_backup else "rsync -a"
            yield f"{rsync} {shlex.quote(str(source))} {shlex.quote(str(target))}"

    def _generalize(self, command: str) -> str:
        for place in (self._world.root, *self._world.copies.values()):
            for path in {str(place.folder), str(place.path("").parent), os.path.dirname(place.path("x"))}:
                command = command.replace(path, "PLACE")
        return re.sub(r"\bcopy\d\b", "COPY", command)
