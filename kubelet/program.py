"""How a fake container behaves: when it ends by itself, how, and what SIGTERM does to it.

Its command says so where it is one of `sleep N`, `exit N`, `true`, `false`, `echo …` or a shell script
(`sh -c "…"`) made of these; what the shell in `kubelet/shell` understands beyond that is foreseen by
running it ahead (`kubelet/interiors.py`); any other container runs until it is stopped. Annotations of the
pod override that, for all its containers or, with `.CONTAINER` appended to the key, for one:

    kubelet.kubeskew.io/runs-for: "5"       seconds until it ends by itself
    kubelet.kubeskew.io/exit-code: "1"      its exit code then; alone, it ends at once
    kubelet.kubeskew.io/on-sigterm: ignore  survives SIGTERM; a number: ends so many seconds after it
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]

PREFIX = "kubelet.kubeskew.io/"
SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"^(\d+(?:\.\d+)?)([smhd]?)$")
_SILENT = frozenset(
    {"echo", "printf", "set", "export", "cd", "mkdir", "touch", ":", "hostname", "date", "env"}
)


@dataclass(frozen=True, slots=True)
class Program:
    """`runs_for` seconds, then `exit_code`.

    None runs until stopped. Ends `stops_after` seconds after SIGTERM.
    """

    runs_for: float | None = None
    exit_code: int = 0
    stops_after: float | None = 0.0  # None: SIGTERM is ignored
    # Annotations say when it ends, whatever its command does.
    is_fixed: bool = field(default=False, compare=False)


def program_of(pod: Object, container: Object) -> Program:
    """What the container does, from its annotations and its command."""
    argv = [*(container.get("command") or []), *(container.get("args") or [])]
    runs_for, exit_code = _run(argv) or (None, 0)
    own_code = _annotation(pod, container, "exit-code")
    own_time = _annotation(pod, container, "runs-for")
    if own_code is not None:
        exit_code = int(own_code)
        runs_for = 0.0 if runs_for is None else runs_for
    if own_time is not None:
        runs_for = float(own_time)
    fixed = own_code is not None or own_time is not None
    return Program(runs_for, exit_code, _stops_after(_annotation(pod, container, "on-sigterm")), fixed)


def _annotation(pod: Object, container: Object, name: str) -> str | None:
    annotations = pod["metadata"].get("annotations") or {}
    common: str | None = annotations.get(PREFIX + name)
    return annotations.get(f"{PREFIX}{name}.{container['name']}", common)


def _stops_after(text: str | None) -> float | None:
    if text is None or text == "exit":
        return 0.0
    return None if text == "ignore" else float(text)


def _run(argv: Sequence[str]) -> tuple[float | None, int] | None:
    """(seconds, exit code) of a command whose end is known; None for any other."""
    if len(argv) >= 3 and _name(argv[0]) in SHELLS and re.fullmatch(r"-[a-z]*c", argv[1]):
        return _run_script(argv[2])
    return _run_simple(argv)


def _run_simple(argv: Sequence[str]) -> tuple[float | None, int] | None:
    command = _name(argv[0]) if argv else ""
    if command == "exec":
        return _run_simple(argv[1:])
    if command in {"true", "false"}:
        return 0.0, int(command == "false")
    if command in _SILENT:
        return 0.0, 0
    if command == "exit":
        return 0.0, int(argv[1]) if len(argv) > 1 and argv[1].isdigit() else 0
    if command == "sleep" and len(argv) == 2:
        found = _DURATION.match(argv[1])
        if found is not None:
            return float(found[1]) * _UNITS[found[2]], 0
    return None


def _run_script(script: str) -> tuple[float | None, int] | None:
    """Statements one after the other; one that is not understood never ends."""
    seconds, code = 0.0, 0
    for separator, statement in _statements(script):
        if (separator == "&&" and code) or (separator == "||" and not code):
            continue
        try:
            words = shlex.split(statement)
        except ValueError:
            return None
        ran = _run_simple(words)
        if ran is None or ran[0] is None:
            return None
        seconds, code = seconds + ran[0], ran[1]
        if words[0] == "exit":
            break
    return seconds, code


def _statements(script: str) -> list[tuple[str, str]]:
    """(operator before it, statement) for each statement that is not empty."""
    parts = re.split(r"(;|&&|\|\||\n)", script)
    pairs = zip(["", *parts[1::2]], parts[0::2], strict=True)
    return [(operator, statement.strip()) for operator, statement in pairs if statement.strip()]


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
