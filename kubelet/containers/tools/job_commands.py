"""The shell's commands for jobs in the background, signals and time limits."""

import re
from collections.abc import Awaitable, Callable

from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.execution.tasks import Task
from kubeskew.kubelet.containers.execution.waiting import ExitError, Until, wait_for

Command = Callable[[Process, list[str]], Awaitable[int]]

SIGNALS = {
    "EXIT": 0, "HUP": 1, "INT": 2, "QUIT": 3, "KILL": 9, "USR1": 10, "USR2": 12, "PIPE": 13, "ALRM": 14,
    "TERM": 15, "CHLD": 17, "CONT": 18, "STOP": 19,
}  # fmt: skip
_NAMES = {number: name for name, number in SIGNALS.items()}
_HARMLESS = frozenset({"CHLD", "CONT", "STOP", "EXIT", "KILL"})  # do not end a container's own program
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TIMED_OUT, _TIMED_OUT_IN_BUSYBOX = 124, 143


def signal_name(word: str) -> str | None:
    """Returns TERM for `15`, `TERM` and `SIGTERM`; None if it is not a signal."""
    name = _NAMES.get(int(word)) if word.isdecimal() else word.upper().removeprefix("SIG")
    return name if name in SIGNALS else None


def seconds_of(word: str) -> float | None:
    """Returns a duration as `sleep` takes it."""
    if word in {"infinity", "inf"}:
        return float("inf")
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)", word)
    return None if found is None else float(found[1]) * _UNITS[found[2]]


async def _wait(process: Process, argv: list[str]) -> int:
    """Waits for all jobs in the background, or for the named ones; a signal with a trap ends the wait."""
    named = [word for word in argv[1:] if not word.startswith("-")]
    code = 0
    for task in [_job(process, word) for word in named] if named else [*process.jobs]:
        if task is None:
            code = 127
            continue
        ended = await _end_or_signal(process, task)
        if ended is None:
            return 128 + SIGNALS[process.machine.tasks.signals[0]]
        code = ended if named else 0
    process.jobs[:] = [task for task in process.jobs if task.code is None]
    return code


async def _end_or_signal(process: Process, task: Task) -> int | None:
    tasks = process.machine.tasks
    is_main = process.traps is tasks.main_traps
    await wait_for(Until(lambda: task.code is not None or (is_main and bool(tasks.signals))))
    return task.code


def _job(process: Process, word: str) -> Task | None:
    if word.startswith("%"):
        number = int(word[1:]) if word[1:].isdecimal() else 1
        return process.jobs[number - 1] if 0 < number <= len(process.jobs) else None
    return next((task for task in process.jobs if str(task.pid) == word), None)


async def _jobs(process: Process, _argv: list[str]) -> int:
    for number, task in enumerate(process.jobs, 1):
        if task.code is None:
            process.out(f"[{number}]+  Running                 {task.name} &\n")
    return 0


async def _trap(process: Process, argv: list[str]) -> int:
    words = [word for word in argv[1:] if word != "--"]
    if not words or words == ["-p"]:
        prefix = "SIG" if process.shell == "bash" else ""
        for name, text in sorted(process.traps.items(), key=lambda item: SIGNALS[item[0]]):
            shown = name if name == "EXIT" else prefix + name
            quoted = text.replace("'", "'\\''")
            process.out(f"trap -- '{quoted}' {shown}\n")
        return 0
    action, names = (words[0], words[1:]) if len(words) > 1 else ("-", words)
    code = 0
    for word in names:
        signal = signal_name(word)
        if signal is None:
            code = process.complain(f"{process.shell}: trap: {word}: invalid signal specification")
        elif action == "-":
            process.traps.pop(signal, None)
        else:
            process.traps[signal] = action
    return code


async def _kill(process: Process, argv: list[str]) -> int:
    words, signal = argv[1:], "TERM"
    if words[:1] == ["-l"]:
        process.out(" ".join([*SIGNALS][1:]) + "\n")
        return 0
    if words[:1] == ["-s"] and len(words) > 1:
        words[:2] = [f"-{words[1]}"]
    if words and words[0].startswith("-") and len(words) > 1:
        named = signal_name(words.pop(0)[1:])
        if named is None:
            return process.complain(f"{process.shell}: kill: bad signal name")
        signal = named
    code = 0
    for word in words:
        code = _send(process, word, signal) or code
    return code


def _send(process: Process, word: str, signal: str) -> int:
    """Sends a signal; SIGKILL does not reach the container's own program from inside its namespace."""
    task = _job(process, word) if word.startswith("%") else None
    pid = task.pid if task is not None else int(word) if word.isdecimal() else -1
    tasks, machine = process.machine.tasks, process.machine
    target = tasks.find(pid)
    if pid == 1 and machine.is_main:
        if signal in tasks.main_traps:
            tasks.signals.append(signal)
        return 0
    if pid == 1:
        if machine.terminate is not None and signal not in _HARMLESS:
            machine.terminate(signal)
        return 0
    if target is None:
        return process.complain(f"{process.shell}: can't kill pid {word}: No such process")
    if signal not in {"CHLD", "CONT", "STOP", "EXIT"}:
        tasks.kill(target, 128 + SIGNALS[signal])
    return 0


async def _timeout(process: Process, argv: list[str]) -> int:
    """`timeout [-s SIGNAL] [-k SECONDS] SECONDS COMMAND …`."""
    words, signal = argv[1:], "TERM"
    while words and words[0].startswith("-"):
        option = words.pop(0)
        value = option[2:] or (words.pop(0) if option[:2] in {"-s", "-k", "-t"} and words else "")
        signal = (signal_name(value) or signal) if option.startswith("-s") else signal
    seconds = seconds_of(words[0]) if words else None
    if len(words) < 2 or process.run is None:
        process.complain("timeout: missing operand")
        return 125
    if seconds is None:
        process.complain(f"timeout: invalid time interval '{words[0]}'")
        return 125
    run = process.run

    async def program() -> int:
        try:
            return await run(process.child(), words[1:])
        except ExitError as end:
            return end.code

    tasks = process.machine.tasks
    task = tasks.spawn(program(), " ".join(words[1:]))
    if await wait_for(Until(lambda: task.code is not None, seconds if seconds > 0 else float("inf"))):
        return task.code or 0
    tasks.kill(task, 128 + SIGNALS[signal])
    return _TIMED_OUT_IN_BUSYBOX if process.machine.is_busybox else _TIMED_OUT


JOB_COMMANDS: dict[str, Command] = {
    "wait": _wait, "jobs": _jobs, "trap": _trap, "kill": _kill, "timeout": _timeout,
}  # fmt: skip
