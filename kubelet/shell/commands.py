"""The commands of fake containers, by name: what the shell does itself, and what asks about the machine."""

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from kubelet.shell.file_commands import FILE_COMMANDS
from kubelet.shell.job_commands import JOB_COMMANDS, seconds_of
from kubelet.shell.process import ExitError, Process, sleep
from kubelet.shell.text_commands import TEXT_COMMANDS
from kubelet.shell.variable_commands import VARIABLE_COMMANDS

Command = Callable[[Process, list[str]], Awaitable[int]]

_AT_ONCE = 1 << 14  # numbers between two turns
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "a": "\a", "b": "\b", "0": "\0", "e": "\x1b"}


async def _true(_process: Process, _argv: list[str]) -> int:
    return 0


async def _false(_process: Process, _argv: list[str]) -> int:
    return 1


async def _exit(process: Process, argv: list[str]) -> int:
    code = argv[1] if len(argv) > 1 else str(process.status)
    if not re.fullmatch(r"\d+", code):
        process.complain(f"sh: exit: Illegal number: {code}")
        raise ExitError(2)
    raise ExitError(int(code) % 256)


async def _sleep(process: Process, argv: list[str]) -> int:
    total = 0.0
    for word in argv[1:]:
        seconds = seconds_of(word)
        if seconds is None:
            return process.complain(f"sleep: invalid number '{word}'")
        total += seconds
    if len(argv) == 1:
        return process.complain("sleep: missing operand")
    await sleep(total)
    return 0


async def _echo(process: Process, argv: list[str]) -> int:
    words, newline, escapes = argv[1:], "\n", False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        option = words.pop(0)
        newline = "" if "n" in option else newline
        escapes = (escapes or "e" in option) and "E" not in option
    text = " ".join(words)
    process.out((unescaped(text) if escapes else text) + newline)
    return 0


def unescaped(text: str) -> str:
    r"""With `\n`, `\t`, `\033`, `\x1b` and the like put in."""

    def replaced(found: re.Match[str]) -> str:
        text = found[1]
        if text[0] == "x":
            return chr(int(text[1:], 16))
        if text[0] in "01234567" and text != "0":
            return chr(int(text, 8))
        return _ESCAPES.get(text[0], found[0])

    return re.sub(r"\\(x[0-9a-fA-F]{1,2}|0?[0-7]{1,3}|.)", replaced, text, flags=re.DOTALL)


async def _printf(process: Process, argv: list[str]) -> int:
    if len(argv) < 2:
        return process.complain("printf: missing operand")
    form, values = unescaped(argv[1]), argv[2:]
    while True:
        text, values, used = _formatted(form, values)
        process.out(text)
        if not (values and used):
            return 0


def _formatted(form: str, values: list[str]) -> tuple[str, list[str], int]:
    """(text, the values that are left, how many were used)."""
    used = 0

    def shown(found: re.Match[str]) -> str:
        nonlocal used
        if found[2] == "%":
            return "%"
        value = values[used] if used < len(values) else ""
        used += 1
        if found[2] in "dixXo":
            number = int(value) if re.fullmatch(r"[-+]?\d+", value) else 0
            return f"%{found[1]}{found[2]}" % number
        return f"%{found[1]}s" % (unescaped(value) if found[2] == "b" else value)

    text = re.sub(r"%([-+ 0#]*\d*(?:\.\d+)?)([sdixXobcq%])", shown, form)
    return text, values[used:], used


async def _cd(process: Process, argv: list[str]) -> int:
    target = argv[1] if len(argv) > 1 else process.environment.get("HOME", "/")
    if target == "-":
        target = process.environment.get("OLDPWD", process.directory)
    path = process.path(target)
    found = process.machine.files.look(path)
    if found is None or not found.is_directory:
        why = "No such file or directory" if found is None else "Not a directory"
        process.complain(f"sh: cd: can't cd to {target}: {why}")
        return 2
    process.environment |= {"OLDPWD": process.directory, "PWD": path}
    process.unset_exports.discard("OLDPWD")
    process.directory = path
    return 0


async def _pwd(process: Process, _argv: list[str]) -> int:
    process.out(f"{process.directory}\n")
    return 0


async def _env(process: Process, argv: list[str]) -> int:
    words, environment = argv[1:], dict(process.environment)
    if words[:1] in (["-i"], ["-"]):
        words, environment = words[1:], {}
    while words and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    if words and process.run is not None:
        return await process.run(process.child(environment=environment), words)
    process.out("".join(f"{name}={value}\n" for name, value in environment.items()))
    return 0


async def _printenv(process: Process, argv: list[str]) -> int:
    if len(argv) == 1:
        return await _env(process, argv)
    found = [process.environment[name] for name in argv[1:] if name in process.environment]
    process.out("".join(f"{value}\n" for value in found))
    return int(len(found) != len(argv) - 1)


async def _hostname(process: Process, _argv: list[str]) -> int:
    process.out(f"{process.machine.hostname}\n")
    return 0


async def _date(process: Process, argv: list[str]) -> int:
    now: datetime = process.machine.now().astimezone(UTC)
    form = next((word[1:] for word in argv[1:] if word.startswith("+")), "%a %b %e %H:%M:%S UTC %Y")
    form = form.replace("%s", str(int(now.timestamp()))).replace("%N", f"{now.microsecond * 1000:09d}")
    process.out(now.strftime(form) + "\n")
    return 0


async def _id(process: Process, argv: list[str]) -> int:
    user = int(process.environment.get("KUBESKEW_UID", "0") or 0)
    if "-u" in argv:
        process.out(f"{user}\n")
    elif "-g" in argv:
        process.out("0\n")
    else:
        name = "uid=0(root)" if user == 0 else f"uid={user}"
        process.out(f"{name} gid=0(root) groups=0(root)\n")
    return 0


async def _whoami(process: Process, _argv: list[str]) -> int:
    process.out("root\n")
    return 0


async def _uname(process: Process, argv: list[str]) -> int:
    shown = {"s": "Linux", "n": process.machine.hostname, "r": "6.1.0", "v": "#1 SMP", "m": "x86_64"}
    letters = "".join(word[1:] for word in argv[1:]) or "s"
    chosen = [value for letter, value in shown.items() if letter in letters or "a" in letters]
    process.out(" ".join([*chosen, *(["GNU/Linux"] if "a" in letters else [])]) + "\n")
    return 0


async def _nproc(process: Process, _argv: list[str]) -> int:
    process.out("1\n")
    return 0


async def _ps(process: Process, _argv: list[str]) -> int:
    process.out("PID   USER     TIME  COMMAND\n    1 root      0:00 (container)\n")
    return 0


async def _tty(process: Process, _argv: list[str]) -> int:
    process.out("/dev/pts/0\n" if process.is_terminal else "not a tty\n")
    return int(not process.is_terminal)


async def _which(process: Process, argv: list[str]) -> int:
    found = [name for name in argv[1:] if not name.startswith("-") and name in COMMANDS]
    process.out("".join(f"/bin/{name}\n" for name in found))
    return int(not found)


async def _seq(process: Process, argv: list[str]) -> int:
    numbers = [int(word) for word in argv[1:] if re.fullmatch(r"-?\d+", word)]
    if not numbers:
        return process.complain("seq: missing operand")
    first, step, last = [(1, 1, numbers[0]), (numbers[0], 1, numbers[-1]), tuple(numbers[:3])][
        len(numbers[:3]) - 1
    ]
    values = range(first, last + (1 if step > 0 else -1), step) if step else range(0)
    while values:
        process.out("".join(f"{value}\n" for value in values[:_AT_ONCE]))
        values = values[_AT_ONCE:]
        await sleep(0)
    return 0


COMMANDS: dict[str, Command] = {
    **TEXT_COMMANDS,
    **FILE_COMMANDS,
    **VARIABLE_COMMANDS,
    **JOB_COMMANDS,
    "true": _true, "false": _false, ":": _true, "exit": _exit, "sleep": _sleep, "echo": _echo,
    "printf": _printf, "cd": _cd, "pwd": _pwd, "env": _env, "printenv": _printenv, "hostname": _hostname,
    "date": _date, "id": _id, "whoami": _whoami, "uname": _uname, "nproc": _nproc, "ps": _ps, "tty": _tty,
    "which": _which, "seq": _seq, "sync": _true, "ulimit": _true, "umask": _true, "clear": _true,
    "stty": _true,
}  # fmt: skip
