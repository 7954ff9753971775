"""The closed list of commands that are acted; the effect of each follows from its words and variables alone.

    sleep N[s|m|h|d]|infinity …    pause    exit N    true    false    :    echo [-n] WORDS
    env    printenv [NAMES]

A shell (`sh -c`, also with options such as -e) runs one of them, or a list joined by `;`, `&&` and new lines,
whose words may be quoted and refer to variables ($NAME, ${NAME}); `while true; do LIST; done` repeats a list
that sleeps. Any other program is not known.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

PAUSE = "pause"  # the program of the image of that name
_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?|\.\d+)([smhd]?)")
_SHELL_OPTION = re.compile(r"-[a-z]*c")
_NUMBER = re.compile(r"\d+")
_TOKEN = re.compile(
    r"""[ \t]+|(?P<join>;|&&|\n)"""
    r"""|(?P<word>(?:'[^']*'|"(?:[^"\\`$]|\$\w+|\$\{\w+\})*"|\$\w+|\$\{\w+\}|[^\s;&|<>()$`"'\\#*?\[\]{}~!])+)"""
)
_PIECE = re.compile(r"""'(?P<exact>[^']*)'|"(?P<quoted>[^"]*)"|(?P<plain>[^'"]+)""")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_LOOP = re.compile(r"\s*while true; do (.*); done\s*", re.DOTALL)
_MOST_ROUNDS = 5_000  # of a loop whose output is kept
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


_Steps = list[tuple[str, list[str]]]  # what joins a command to the one before, and its words


class Output(NamedTuple):
    """A line that a command writes so many seconds after its start."""

    seconds: float
    stream: str
    data: bytes


class Effect(NamedTuple):
    """The whole run of a command: what it writes, how long it runs (None: until stopped), its exit code.

    With `period` it writes the same again each time when so many seconds have passed.
    """

    lines: Sequence[Output] = ()
    seconds: float | None = 0.0
    exit_code: int = 0
    period: float = 0.0

    def written(self, until: float) -> Iterator[Output]:
        """The output up to a moment in seconds, of a loop the end of it."""
        if not self.period:
            yield from (line for line in self.lines if line.seconds <= until)
            return
        rounds = int(until // self.period) + 1
        for number in range(max(0, rounds - _MOST_ROUNDS), rounds):
            for line in self.lines:
                seconds = number * self.period + line.seconds
                if seconds <= until:
                    yield line._replace(seconds=seconds)


class _EndError(Exception):
    """The shell ends."""


class _Run:
    """One run, up to where it has come."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self.lines: list[Output] = []
        self.seconds = 0.0
        self.code = 0

    def do(self, words: Sequence[str]) -> None:
        """Raises _EndError for `exit`, and for a command that does not end."""
        name, args = _base(words[0]), words[1:]
        self.code = 0
        if name in {"sleep", PAUSE}:
            forever = name == PAUSE or "infinity" in args
            self.seconds += math.inf if forever else sum(map(_seconds, args))
            if self.seconds == math.inf:
                raise _EndError
        elif name == "exit":
            self.code = int(args[0]) % 256 if args else 0
            raise _EndError
        elif name == "false":
            self.code = 1
        elif name == "echo":
            ends = [] if args[:1] == ["-n"] else ["\n"]
            self._write(" ".join(args[1:] if not ends else args) + "".join(ends))
        elif name == "env" or (name == "printenv" and not args):
            for variable, value in self._variables.items():
                self._write(f"{variable}={value}\n")
        elif name == "printenv":
            for variable in args:
                if variable in self._variables:
                    self._write(f"{self._variables[variable]}\n")
                else:
                    self.code = 1

    def all(self, steps: "_Steps", *, stops_at_failure: bool) -> bool:
        """Runs a list; True if the shell ended within it."""
        try:
            for number, (join, words) in enumerate(steps):
                if join == "&&" and self.code:
                    continue
                self.do(words)
                is_tested = number + 1 < len(steps) and steps[number + 1][0] == "&&"
                if stops_at_failure and self.code and not is_tested:
                    return True
        except _EndError:
            return True
        return False

    def _write(self, text: str) -> None:
        for line in text.encode("utf-8", "surrogateescape").splitlines(keepends=True):
            self.lines.append(Output(self.seconds, "stdout", line))

    def effect(self) -> Effect:
        return Effect(self.lines, None if self.seconds == math.inf else self.seconds, self.code)


def variables_of(env: Mapping[str, str], hostname: str, *, tty: bool = False) -> dict[str, str]:
    """The environment that a program has: what every container has, and what its configuration says."""
    common = {"PATH": _PATH, "HOSTNAME": hostname, **({"TERM": "xterm"} if tty else {})}
    return {**common, **env, "HOME": env.get("HOME", "/root")}


def effect_of(argv: Sequence[str], variables: Mapping[str, str], directory: str = "/") -> Effect | None:
    """None stands for a program that is not known."""
    if not argv:
        return None
    shell = _base(argv[0]) in _SHELLS
    if shell and (len(argv) < 3 or not _SHELL_OPTION.fullmatch(argv[1])):
        return None
    if not shell:
        steps: _Steps | None = [(";", list(argv))]
        loop = None
    else:
        variables = {**variables, "PWD": directory, "SHLVL": "1"}
        loop = _LOOP.fullmatch(argv[2])
        steps = _steps(argv[2] if loop is None else loop[1], variables)
    if steps is None or not all(_is_acted(words) for _, words in steps):
        return None
    run = _Run(variables)
    ended = run.all(steps, stops_at_failure=shell and "e" in argv[1])
    if loop is None or ended:
        return run.effect()
    return Effect(run.lines, None, 0, run.seconds) if run.seconds else None


def _steps(script: str, variables: Mapping[str, str]) -> _Steps | None:
    """Each step is a command's words, and what joins it to the one before; None if there is more."""
    steps: _Steps = []
    join, words, position = ";", [], 0
    script = script.strip()
    while position < len(script):
        found = _TOKEN.match(script, position)
        if found is None:
            return None
        position = found.end()
        if found["word"] is not None:
            words.append(_expanded(found["word"], variables))
        elif found["join"] is not None:
            if words:
                steps.append((join, words))
                join, words = found["join"], []
            elif found["join"] != "\n":
                return None
    if words:
        steps.append((join, words))
    elif join == "&&":
        return None
    return steps


def _expanded(word: str, variables: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        return variables.get(found[1] or found[2], "")

    pieces = []
    for piece in _PIECE.finditer(word):
        exact = piece["exact"]
        pieces.append(
            exact if exact is not None else _VARIABLE.sub(value, piece["quoted"] or piece["plain"] or "")
        )
    return "".join(pieces)


def _is_acted(words: Sequence[str]) -> bool:
    name, args = _base(words[0]), words[1:]
    if name in {"true", "false", ":", "echo", "printenv", PAUSE}:
        return True
    if name == "env":
        return not args
    if name == "exit":
        return not args or (len(args) == 1 and _NUMBER.fullmatch(args[0]) is not None)
    return (
        name == "sleep" and bool(args) and all(arg == "infinity" or _DURATION.fullmatch(arg) for arg in args)
    )


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text)
    return float(found[1]) * _UNITS[found[2]] if found is not None else math.inf


def _base(program: str) -> str:
    return program.rpartition("/")[2]
