"""Reads the fenced blocks of a document: files to write, and commands with what they print."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?$")
_NOT_RUN = re.compile(r"^<!-- not run: (?P<reason>.+) -->$")
_ELIDED = "…"


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and what it prints as the document shows it; nothing is shown if `shown` is empty."""

    text: str
    line: int
    shown: list[str] = field(default_factory=list)

    def missing(self, text: str) -> str:
        """Returns the first shown line that a printed text does not have in its place, or nothing if it is
        what is shown: `…` alone stands for any lines, in a line for any text; columns may be wider."""
        trimmed = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
        if not self.shown or re.fullmatch(_pattern(self.shown), trimmed):
            return ""
        lines = (
            line
            for at, line in enumerate(self.shown)
            if not re.match(_pattern(self.shown[: at + 1]), trimmed)
        )
        return next(lines, "the end")


def _pattern(shown: list[str]) -> str:
    return "".join(r"(?:.*\n)*?" if line.strip() == _ELIDED else _line(line.rstrip()) for line in shown)


def _line(shown: str) -> str:
    return ".*?".join(map(_spaced, shown.split(_ELIDED))) + r"\n"


def _spaced(text: str) -> str:
    return " +".join(map(re.escape, re.split(" +", text)))


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `title` is the file that it is, `reason` why it is not run."""

    language: str
    title: str
    text: str
    line: int
    reason: str

    def commands(self) -> Iterator[Command]:
        """Yields the commands of a console, each begun by `$ ` and gone on with by `> `."""
        command: Command | None = None
        for number, line in enumerate(self.text.splitlines(), self.line + 1):
            if line.startswith("$ "):
                if command is not None:
                    yield command
                command = Command(line[2:], number)
            elif command is None:
                raise ValueError(f"line {number}: a console begins with `$ ` and a command")
            elif line.startswith("> ") and not command.shown:
                command = Command(f"{command.text}\n{line[2:]}", command.line)
            else:
                command.shown.append(line)
        if command is not None:
            yield command


def blocks(document: str) -> Iterator[Block]:
    """Yields the fenced blocks. Raises ValueError for one that cannot be run and does not say why, and for
    code that is only indented, which nobody would run."""
    lines = iter(enumerate(document.splitlines(), 1))
    before = ""
    for number, line in lines:
        found = _FENCE.match(line)
        if found is None:
            if line.startswith("    ") and not before and not line.lstrip().startswith(("-", "*")):
                raise ValueError(
                    f"line {number}: code that is indented; put it in a fence, with its language"
                )
            if "```" in line:
                raise ValueError(f"line {number}: not the beginning of a block: {line}")
            before = line.strip() if line.strip() or not _NOT_RUN.match(before) else before
            continue
        inside = []
        for _, each in lines:
            if each.strip() == "```":
                break
            inside.append(each.removeprefix(found["indent"]))
        skipped = _NOT_RUN.match(before)
        block = Block(
            found["language"], found["title"] or "", "".join(f"{each}\n" for each in inside), number,
            skipped["reason"] if skipped else "",
        )  # fmt: skip
        if not (block.title or block.language == "console" or block.reason):
            raise ValueError(
                f"line {number}: a block that nobody runs: make it a console, give it the title of its file "
                '(title="NAME"), or write <!-- not run: REASON --> in the line before'
            )
        before = ""
        yield block
