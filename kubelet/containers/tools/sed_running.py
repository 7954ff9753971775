"""Runs scripts of `sed`."""

import re

from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.execution.waiting import sleep
from kubeskew.kubelet.containers.tools.sed_scripts import Address, Instruction

_REPLACED = re.compile(r"\\(\d)|\\([nt&\\LUElu\n])|(&)|\\(.)", re.DOTALL)


def _filled(template: str, match: re.Match[str]) -> str:
    """Returns the replacement, with the groups of a match put in."""
    out, case, once = "", "", ""

    def add(text: str) -> None:
        nonlocal out, once
        text = text.upper() if case == "U" else text.lower() if case == "L" else text
        if once and text:
            text = (text[0].upper() if once == "u" else text[0].lower()) + text[1:]
            once = ""
        out += text

    at = 0
    for found in _REPLACED.finditer(template):
        add(template[at : found.start()])
        at = found.end()
        if found[1] is not None:
            add(match[int(found[1])] or "")
        elif found[3]:
            add(match[0])
        elif found[2] in {"L", "U", "E"}:
            case = "" if found[2] == "E" else found[2]
        elif found[2] in {"l", "u"}:
            once = found[2]
        elif found[2]:
            add({"n": "\n", "t": "\t"}.get(found[2], found[2]))
        else:
            add(found[4])
    add(template[at:])
    return out


class SedRun:
    """One run over some lines; `out` is called with each piece of output."""

    def __init__(self, script: list[Instruction], lines: list[str], *, quiet: bool) -> None:
        self.output: list[str] = []
        self.code = 0
        self._script = script
        self._lines = lines
        self._quiet = quiet
        self._number = 0
        self._space = self._hold = ""
        self._ended = ""  # the end of the line
        self._after: list[str] = []
        self._substituted = False
        self._quits = False
        self._labels = {command.text: number for number, command in enumerate(script) if command.name == ":"}

    async def run(self, process: Process) -> None:
        again = False
        while not self._quits and (again or self._next_line()):
            again = await self._cycle(process)
            await sleep(0) if self._number % 1000 == 0 else None

    def _next_line(self) -> bool:
        if self._number >= len(self._lines):
            return False
        line = self._lines[self._number]
        self._space, self._ended = (line[:-1], "\n") if line.endswith("\n") else (line, "")
        self._number += 1
        self._substituted = False
        return True

    def _print(self, text: str, end: str | None = None) -> None:
        self.output.append(text + (self._ended if end is None else end))

    def _flush(self) -> None:
        if not self._quiet:
            self._print(self._space)
        self.output += [f"{text}\n" for text in self._after]
        self._after.clear()

    async def _cycle(self, process: Process) -> bool:
        """Runs the script on one line; returns whether the next cycle begins without reading a line."""
        at, turns = 0, 0
        while at < len(self._script):
            turns += 1
            if turns % 10_000 == 0:
                await sleep(0)
            instruction = self._script[at]
            at += 1
            if instruction.name == ":":
                continue
            if self._selects(instruction) == instruction.negated:
                at = instruction.target if instruction.name == "{" else at
                continue
            following = self._do(instruction, at)
            if following is None:
                return False
            if following < 0:
                return True
            at = following
        self._flush()
        return False

    def _do(self, one: Instruction, at: int) -> int | None:  # noqa: C901 - one line per command
        """Runs a command and returns where to go on; None: the line is done, negative: again without
        reading."""
        name = one.name
        if name == "s":
            self._substitute(one)
        elif name == "d":
            self.output += [f"{text}\n" for text in self._after]
            self._after.clear()
            return None
        elif name == "D":
            if "\n" not in self._space:
                return None
            self._space = self._space.split("\n", 1)[1]
            return -1
        elif name == "p":
            self._print(self._space, "\n")
        elif name == "P":
            self._print(self._space.split("\n", 1)[0], "\n")
        elif name in "nN":
            return self._read_more(name, at)
        elif name in "gGhHx":
            self._held(name)
        elif name in "qQ":
            self.code, self._quits = int(one.text or 0), True
            if name == "q":
                self._flush()
            return None
        elif name == "=":
            self._print(str(self._number), "\n")
        elif name == "a":
            self._after.append(one.text)
        elif name == "i":
            self._print(one.text, "\n")
        elif name == "c":
            if one.second is None or one.until is None or one.negated:
                self._print(one.text, "\n")
            return None
        elif name == "y":
            self._space = self._space.translate(one.table)
        elif name == "z":
            self._space = ""
        elif name == "l":
            self._print(
                self._space.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n") + "$", "\n"
            )
        elif name == "b" or (name == "t" and self._substituted) or (name == "T" and not self._substituted):
            self._substituted = False
            return self._labels[one.text] if one.text in self._labels else len(self._script)
        elif name == "T":
            self._substituted = False
        return at

    def _read_more(self, name: str, at: int) -> int | None:
        if self._number >= len(self._lines):
            if name == "N" or not self._quiet:
                self._flush()
            self._quits = True
            return None
        before = self._space
        if name == "n":
            self._flush()
            self._next_line()
        else:
            self._next_line()
            self._space = f"{before}\n{self._space}"
        return at

    def _held(self, name: str) -> None:
        if name == "x":
            self._space, self._hold = self._hold, self._space
        elif name == "g":
            self._space = self._hold
        elif name == "G":
            self._space += "\n" + self._hold
        elif name == "h":
            self._hold = self._space
        else:
            self._hold += "\n" + self._space

    def _substitute(self, one: Instruction) -> None:
        assert one.pattern is not None  # noqa: S101 - every `s` has one
        out, at, count, changed, last = "", 0, 0, False, -1
        for match in one.pattern.finditer(self._space):
            if match.end() == match.start() == last:
                continue  # an empty match right after another match
            last = match.end()
            count += 1
            if count < one.number:
                continue
            out += self._space[at : match.start()] + _filled(one.text, match)
            at, changed = match.end(), True
            if "g" not in one.flags:
                break
        if changed:
            self._space = out + self._space[at:]
            self._substituted = True
            if "p" in one.flags:
                self._print(self._space, "\n")

    def _selects(self, one: Instruction) -> bool:
        if one.first is None:
            return True
        if one.second is None:
            return self._matches(one.first)
        if one.until is not None:
            return self._goes_on(one)
        if not self._matches(one.first):
            return False
        second = one.second
        if second.kind == "line" and second.number <= self._number:
            return True
        one.until = self._number + second.number if second.kind == "plus" else second.number or -1
        if second.kind == "plus" and not second.number:
            one.until = None
        return True

    def _goes_on(self, one: Instruction) -> bool:
        assert one.second is not None  # noqa: S101 - a range has begun
        if one.second.kind in {"line", "plus"}:
            assert one.until is not None  # noqa: S101 - a range has begun
            inside = self._number <= one.until
            if self._number >= one.until:
                one.until = None
            return inside
        if self._matches(one.second):
            one.until = None
        return True

    def _matches(self, address: Address) -> bool:
        if address.kind == "line":
            return self._number == address.number
        if address.kind == "last":
            return self._number == len(self._lines)
        if address.kind == "step":
            behind = self._number - address.number
            return behind >= 0 and (behind == 0 if not address.step else behind % address.step == 0)
        return address.pattern is not None and address.pattern.search(self._space) is not None
