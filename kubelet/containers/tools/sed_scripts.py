"""Parses scripts of GNU `sed`, without the commands that read and write files."""

import re
from dataclasses import dataclass, field

from kubeskew.kubelet.containers.tools.regexes import compiled

_SIMPLE = frozenset("dDgGhHnNpPqQx=lz")
_LABELED = frozenset("btT:")
_TEXTUAL = frozenset("aic")


class SedError(ValueError):
    """The script does not parse; the text is sed's."""


@dataclass(slots=True)
class Address:
    """`kind`: line, last, pattern, step or plus (so many lines after the first)."""

    kind: str
    number: int = 0
    step: int = 0
    pattern: re.Pattern[str] | None = None


@dataclass(slots=True)
class Instruction:
    name: str
    first: Address | None = None
    second: Address | None = None
    negated: bool = False
    pattern: re.Pattern[str] | None = None
    text: str = ""  # a replacement, label, text, or exit code
    flags: str = ""
    number: int = 1  # the first occurrence that `s` replaces
    target: int = 0  # the end of a block
    until: int | None = None  # the last line of the range that has begun; -1: not known yet
    table: dict[int, int] = field(default_factory=dict)


class SedParser:
    """Parses a script into a flat list; blocks know where they end."""

    def __init__(self, text: str, *, extended: bool) -> None:
        self._text = text
        self._at = 0
        self._extended = extended
        self._last: re.Pattern[str] | None = None

    def parse(self) -> list[Instruction]:
        found: list[Instruction] = []
        blocks: list[int] = []
        while True:
            self._skip(" \t\n;")
            if self._at >= len(self._text):
                break
            if self._text[self._at] == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
                continue
            if self._text[self._at] == "}":
                if not blocks:
                    raise SedError("unexpected `}'")
                self._at += 1
                found[blocks.pop()].target = len(found)
                continue
            instruction = self._instruction()
            if instruction.name == "{":
                blocks.append(len(found))
            found.append(instruction)
        if blocks:
            raise SedError("unmatched `{'")
        return found

    def _skip(self, characters: str) -> None:
        while self._at < len(self._text) and self._text[self._at] in characters:
            self._at += 1

    def _instruction(self) -> Instruction:
        made = Instruction("", self._address())
        if made.first is not None:
            self._skip(" \t")
            if self._text.startswith(",", self._at):
                self._at += 1
                self._skip(" \t")
                made.second = self._address(second=True)
                if made.second is None:
                    raise SedError("unexpected `,'")
        self._skip(" \t")
        while self._text.startswith("!", self._at):
            made.negated = True
            self._at += 1
            self._skip(" \t")
        if self._at >= len(self._text):
            raise SedError("missing command")
        made.name = self._text[self._at]
        self._at += 1
        self._operands(made)
        return made

    def _operands(self, made: Instruction) -> None:
        if made.name == "s":
            self._substitution(made)
        elif made.name == "y":
            delimiter = self._text[self._at]
            source, target = self._delimited(delimiter), self._delimited(delimiter)
            self._at += 1
            source, target = source.replace("\\n", "\n"), target.replace("\\n", "\n")
            if len(source) != len(target):
                raise SedError("strings for `y' command are different lengths")
            made.table = str.maketrans(source, target)
        elif made.name in _TEXTUAL:
            self._skip(" \t")
            if self._text.startswith("\\", self._at):
                self._at += 1
                self._skip(" \t")
                self._at += self._text.startswith("\n", self._at)
            made.text = self._until("\n", escapes=True)
            if not made.text:
                raise SedError("expected \\ after `a', `c' or `i'")
        elif made.name in _LABELED:
            self._skip(" \t")
            made.text = self._until("\n;}" if made.name != ":" else "\n;").strip()
        elif made.name in "qQ":
            self._skip(" \t")
            made.text = self._until("\n;} ")
        elif made.name != "{" and made.name not in _SIMPLE:
            raise SedError(f"unknown command: `{made.name}'")

    def _until(self, ends: str, *, escapes: bool = False) -> str:
        out = ""
        while self._at < len(self._text) and self._text[self._at] not in ends:
            if escapes and self._text[self._at] == "\\":
                self._at += 1
            out += self._text[self._at : self._at + 1]
            self._at += 1
        return out

    def _address(self, *, second: bool = False) -> Address | None:
        number = re.compile(r"\+?\d+").match(self._text, self._at)
        if number is not None and (second or number[0][0] != "+"):
            self._at = number.end()
            if number[0][0] == "+":
                return Address("plus", int(number[0][1:]))
            step = re.compile(r"~(\d+)").match(self._text, self._at)
            if step is not None:
                self._at = step.end()
                return Address("step", int(number[0]), int(step[1]))
            return Address("line", int(number[0]))
        if self._text.startswith("$", self._at):
            self._at += 1
            return Address("last")
        if self._text[self._at : self._at + 1] in {"/", "\\"}:
            if self._text[self._at] == "\\":
                self._at += 1
            pattern = self._delimited(self._text[self._at])
            self._at += 1
            ignores = self._text.startswith("I", self._at)
            self._at += ignores
            return Address("pattern", pattern=self._compiled(pattern, ignores_case=ignores))
        return None

    def _compiled(self, pattern: str, *, ignores_case: bool) -> re.Pattern[str]:
        if not pattern:
            if self._last is None:
                raise SedError("no previous regular expression")
            return self._last
        try:
            self._last = compiled(pattern, extended=self._extended, ignores_case=ignores_case)
        except ValueError as error:
            raise SedError(str(error)) from None
        return self._last

    def _delimited(self, delimiter: str) -> str:
        """Reads up to the next delimiter."""
        if self._text.startswith(delimiter, self._at):
            self._at += 1
        out, brackets = "", False
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == "\\" and self._at + 1 < len(self._text):
                following = self._text[self._at + 1]
                out += following if following == delimiter and delimiter not in "|" else char + following
                self._at += 2
                continue
            if char == delimiter and not brackets:
                return out
            brackets = (brackets or char == "[") and not (brackets and char == "]")
            brackets = brackets and "]" in self._text[self._at + 1 :]
            out += char
            self._at += 1
        raise SedError("unterminated `s' command")

    def _substitution(self, made: Instruction) -> None:
        delimiter = self._text[self._at : self._at + 1]
        if delimiter in {"", "\n", "\\"}:
            raise SedError("unterminated `s' command")
        pattern = self._delimited(delimiter)
        made.text = self._replacement(delimiter)
        while self._at < len(self._text) and self._text[self._at] in "gpIiemM0123456789":
            number = re.compile(r"\d+").match(self._text, self._at)
            if number is not None:
                made.number = int(number[0])
                self._at = number.end()
            else:
                made.flags += self._text[self._at]
                self._at += 1
        self._skip(" \t")
        if self._at < len(self._text) and self._text[self._at] not in "\n;}#":
            raise SedError("unknown option to `s'")
        made.pattern = self._compiled(pattern, ignores_case=bool({"I", "i"} & set(made.flags)))
        groups = max(
            (int(digit) for digit in re.findall(r"\\(\d)", made.text.replace("\\\\", ""))), default=0
        )
        if groups > made.pattern.groups:
            raise SedError(f"invalid reference \\{groups} on `s' command's RHS")

    def _replacement(self, delimiter: str) -> str:
        self._at += 1
        out = ""
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == "\\" and self._at + 1 < len(self._text):
                following = self._text[self._at + 1]
                out += (
                    "\\&" if following == "&" else following if following == delimiter else char + following
                )
                self._at += 2
            elif char == delimiter:
                self._at += 1
                return out
            else:
                out += char
                self._at += 1
        raise SedError("unterminated `s' command")
