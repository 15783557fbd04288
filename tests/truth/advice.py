"""
Carry out what the program advises, to the letter, and see whether the last good content of each file is left.

Placeholders are filled as a reader fills them. What only looks is left out. Words such as "run the backup" are done as
they say. ``integrity`` gets the files of one command together, as it takes several.
"""

from __future__ import annotations

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
_KEEPS = "rsync -a --backup --suffix=.old"
_OTHER_STEP_CHANCE = 0.5
_DECISION_CHANCE = 0.3
_COMMAND = re.compile(r"(?<![\w/.-])(?:integrity (?:repair|accept)|cp -|rsync -|mv )[^\n;]*")
_LOOKS = re.compile(
    r"^(integrity (compare|scrub|scan|explain|manual|findings|status|root|catalog|versions)|smartctl|cmp|diff|ls)\b"
)
_UNKNOWN = re.compile(r"\b(DISK|NEW|OLD|UNTIL)\b")
_RUN_BACKUP = re.compile(r"\b(run the backup|back (it|the file) up)\b", re.IGNORECASE)
_COPY_OVER = re.compile(r"\bcopy (this one|the|your) file over\b", re.IGNORECASE)
_DO_NOT = re.compile(r"\b(do not|don't|never) (run|back|copy)\b", re.IGNORECASE)


class Reader:
    """Somebody who does what is advised in a world; errors go to ``judge``, what was tried into ``result``."""

    def __init__(self, world: World, judge: Judge, result: Result) -> None:
        self._world, self._judge, self._result = world, judge, result

    def follow(self, said: Iterable[JsonObject]) -> None:
        """Carry out what findings advise: mostly the first step; compare what exists before and after."""
        deeds = [deed for each in _sort(said) if each["type"] == "finding" for deed in self._find_deeds(each)]
        # What somebody has accepted, perhaps that a file is gone, is not repaired any more.
        accepted = {life.name for life, command in deeds if command.startswith("integrity accept ")}
        deeds = [(life, done) for life, done in deeds if life.name not in accepted or " accept " in done]
        before = self._world.find_contents()
        self._carry_out(deeds)
        after = self._world.find_contents()
        for life in self._world.lives.values():
            lost = [each for each in life.honest if life.is_last(each, before) and each in before - after]
            if lost:
                commands = "; ".join(command for each, command in deeds if each is life)
                versions = ", ".join(str(life.honest[each].number) for each in lost)
                self._judge.add_error("O4", life, f"version {versions} existed and is gone after: {commands}")

    def decide(self, said: Iterable[JsonObject]) -> None:
        """End some findings as an owner does who knows the truth."""
        root, deeds = self._world.root, []
        for finding in _sort(said):
            life, copy = self._world.find_life(str(finding["path"])), finding.get("copy")
            here = root.see(life.name) if life is not None else None
            if life is None or here is None or life.whim.random() > _DECISION_CHANCE:
                continue
            there = self._world.copies[str(copy)].see(life.name) if copy else None
            path, is_good = self._quote(life), here.content in life.honest
            if finding["kind"] in ("silent_rewrite", "rot") and is_good:
                deeds.append((life, f"integrity accept {path} --reason because"))
            elif finding["kind"] == "copy_conflict" and is_good and there and here.content != there.content:
                deeds.append((life, f"integrity accept {path} --reason because"))
                deeds.append((life, f"integrity accept {path} --with {copy} --reason because"))
            elif finding["kind"] == "copy_conflict" and there is not None and there.content in life.honest:
                deeds.append((life, f"integrity repair {path} --from {copy} --copy-is-right --apply"))
        self._carry_out(deeds)
        for life, command in deeds:
            life.log.append(command.replace(self._quote(life), "FILE"))
            if (seen := root.see(life.name)) is None:
                continue
            if " --with " not in command:
                root.readings[life.name] = [seen]
                continue
            name = command.partition(" --with ")[2].partition(" ")[0]
            if (there := self._world.copies[name].see(life.name)) is not None:
                self._world.rejected.add(there.content)

    def _quote(self, life: Life) -> str:
        return shlex.quote(str(self._world.root.folder / life.name))

    def _carry_out(self, deeds: Sequence[tuple[Life, str]]) -> None:
        groups: dict[tuple[str, str], set[str]] = {}
        script: list[str] = []
        for life, command in deeds:
            path = self._quote(life)
            head, found, tail = command.partition(path)
            if command.startswith("integrity ") and found:
                groups.setdefault((head, tail), set()).add(path)
            else:
                script.append(command)
            general = re.sub(r"\bcopy\d\b", "COPY", re.sub(r"'?/\S+", "PATH", command))
            self._result.counts["carried out", general] += 1
        environment = {**self._world.box.environment, "TZ": "UTC"}
        done = subprocess.run(
            ["bash", "-e"], input="\n".join(script), env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            self._judge.add_error("O4", deeds[0][0], f"advice can't be followed: {done.stderr}")
        for (head, tail), paths in groups.items():
            command = f"{head}{' '.join(sorted(paths))}{tail}"
            ran = self._world.box.run(*shlex.split(command)[1:], timeout=240)
            is_over = "there is nothing to decide" in ran.stderr  # by what was decided about another copy of the file
            if ran.code not in (0, 1, 3) and not is_over:
                self._judge.add_error("O4", deeds[0][0], f"advice can't be followed: {command}: {ran.stderr}")

    def _find_deeds(self, finding: JsonObject) -> Iterator[tuple[Life, str]]:
        """Return what a reader types: one of the steps, and what the message itself says."""
        life, steps = self._world.find_life(str(finding["path"])), finding["next_steps"]
        assert isinstance(steps, list)
        if life is None or not steps:
            return
        step = steps[0] if life.whim.random() > _OTHER_STEP_CHANCE else life.whim.choice(steps)
        commands = [str(step["command"] or ""), *_COMMAND.findall(str(finding["message"]))]
        commands = [command for command in commands if command and not _LOOKS.match(command)]
        commands = commands or list(self._read_words(f"{step['words']} {finding['message']}", finding, life))
        yield from ((life, self._fill(command, finding)) for command in commands if not _UNKNOWN.search(command))

    def _fill(self, command: str, finding: JsonObject) -> str:
        command = re.sub(r"[.,:)]+$", "", command.strip())
        names = [name for name, place in self._world.copies.items() if not place.habit.is_list]
        copy = str(finding["copy"] or next(iter(names), ""))
        others = [name for name in names if name != copy]
        for word, value in (("COPY", copy), ("OTHER", others[0] if others else copy), ("WHY", "because")):
            command = re.sub(rf"\b{word}\b", value, command)
        is_plan = command.startswith("integrity repair ") and "--apply" not in command
        return f"{command} --apply" if is_plan else command

    def _read_words(self, words: str, finding: JsonObject, life: Life) -> Iterator[str]:
        place = self._world.copies.get(str(finding["copy"]))
        if place is None or place.habit.is_list or _DO_NOT.search(words):
            return
        target = shlex.quote(str(place.folder / life.name.removeprefix(place.habit.part)))
        if _COPY_OVER.search(words):
            yield f"cp -p {self._quote(life)} {target}"
        elif _RUN_BACKUP.search(words):
            keeps = "--backup" in words or _KEEPS in _MANUAL.read_text(encoding="utf-8")
            yield f"{_KEEPS if keeps else 'rsync -a'} {self._quote(life)} {target}"


def _sort(said: Iterable[JsonObject]) -> list[JsonObject]:
    """Return what was said in the same order in each life of a world, whichever thread of the program was first."""
    return sorted(said, key=lambda each: (str(each["path"]), str(each.get("copy")), str(each["kind"])))
