"""The commands of fake containers, by name; this module has those that only compute and print."""

import re
from collections.abc import Awaitable, Callable

from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.execution.waiting import ExitError, sleep
from kubeskew.kubelet.containers.shell.variable_commands import VARIABLE_COMMANDS
from kubeskew.kubelet.containers.tools.byte_commands import BYTE_COMMANDS
from kubeskew.kubelet.containers.tools.expr import expr
from kubeskew.kubelet.containers.tools.file_commands import FILE_COMMANDS
from kubeskew.kubelet.containers.tools.finding import find
from kubeskew.kubelet.containers.tools.job_commands import JOB_COMMANDS, seconds_of
from kubeskew.kubelet.containers.tools.network_commands import NETWORK_COMMANDS
from kubeskew.kubelet.containers.tools.system_commands import SYSTEM_COMMANDS
from kubeskew.kubelet.containers.tools.text_commands import TEXT_COMMANDS

Command = Callable[[Process, list[str]], Awaitable[int]]

_AT_ONCE = 1 << 14  # numbers printed between two turns
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "\\": "\\",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "v": "\v",
}
_SPEC = re.compile(r"%([-+ 0#]*)(\*|\d+)?(?:\.(\*|\d+)?)?([sdiuxXobcqeEfgG%])")


async def _true(_process: Process, _argv: list[str]) -> int:
    return 0


async def _false(_process: Process, _argv: list[str]) -> int:
    return 1


async def _exit(process: Process, argv: list[str]) -> int:
    code = argv[1] if len(argv) > 1 else str(process.status)
    if not re.fullmatch(r"\d+", code):
        process.complain(f"{process.shell}: exit: Illegal number: {code}")
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
    if escapes:
        text, stopped = _until_stop(text)
        newline = "" if stopped else newline
    process.out(text + newline)
    return 0


def _until_stop(text: str) -> tuple[str, bool]:
    r"""Returns (the text with escapes replaced, whether `\c` ended it)."""
    shown = unescaped(text, zero_octal=True)
    return (shown.split("\0c")[0], True) if "\0c" in shown else (shown, False)


def unescaped(text: str, *, zero_octal: bool = False) -> str:
    r"""Returns the text with `\n`, `\t`, `\033`, `\x1b` and the like replaced; `\c` becomes a NUL and a c."""

    def replaced(found: re.Match[str]) -> str:
        text = found[1]
        if text[0] == "x":
            return _byte(int(text[1:], 16)) if len(text) > 1 else found[0]
        if text[0] in "01234567":
            return _byte(int(text, 8) & 0xFF)
        return "\0c" if text[0] == "c" else _ESCAPES.get(text[0], found[0])

    octal = "0[0-7]{0,3}|[1-7][0-7]{0,2}" if zero_octal else "[0-7]{1,3}"
    return re.sub(rf"\\(x[0-9a-fA-F]{{1,2}}|{octal}|.)", replaced, text, flags=re.DOTALL)


def _byte(code: int) -> str:
    return chr(code) if code < 128 else bytes([code]).decode("utf-8", "surrogateescape")


async def _printf(process: Process, argv: list[str]) -> int:
    words = argv[2:] if argv[1:2] == ["--"] else argv[1:]
    if words[:1] == ["-v"] and len(words) > 2 and process.shell == "bash":
        collected: list[str] = []
        _print_all(process, words[2], words[3:], collected.append)
        process.assign(words[1], "".join(collected))
        return 0
    if not words:
        return process.complain("printf: missing operand")
    return _print_all(process, words[0], words[1:], process.out)


def _print_all(process: Process, form: str, values: list[str], write: Callable[[str], None]) -> int:
    """Prints the format as often as there are values left."""
    code, form = 0, unescaped(form)
    while True:
        shown = _Formatted(form, values)
        write(shown.text.split("\0c")[0])
        for word in shown.bad:
            code = process.complain(f"{process.shell}: {word}: invalid number")
        values = values[shown.used :]
        if not (values and shown.used) or "\0c" in shown.text:
            return code


class _Formatted:
    """One round of `printf`."""

    def __init__(self, form: str, values: list[str]) -> None:
        self._values = values
        self.used = 0
        self.bad: list[str] = []
        self.text = _SPEC.sub(self._shown, form)

    def _next(self) -> str:
        self.used += 1
        return self._values[self.used - 1] if self.used <= len(self._values) else ""

    def _number(self, text: str) -> int:
        if text[:1] in {"'", '"'}:
            return ord(text[1]) if len(text) > 1 else 0
        found = re.match(r"\s*([-+]?(?:0[xX][0-9a-fA-F]+|\d+))", text)
        if text and (found is None or found.end() != len(text)):
            self.bad.append(text)
        if found is None:
            return 0
        digits = found[1].lstrip("+-")
        value = (
            int(digits, 16)
            if digits[:2] in {"0x", "0X"}
            else int(digits, 8)
            if re.fullmatch("0[0-7]+", digits)
            else int(digits)
        )
        return -value if found[1][0] == "-" else value

    def _shown(self, found: re.Match[str]) -> str:
        flags, width, precision, kind = found[1], found[2], found[3], found[4]
        if kind == "%":
            return "%"
        width = str(self._number(self._next())) if width == "*" else width or ""
        point = "." in found[0]
        precision = str(self._number(self._next())) if precision == "*" else precision or ""
        spec = f"%{flags}{width}" + (f".{precision}" if point else "")
        value = self._next()
        if kind in "diuxXo":
            number = self._number(value)
            if kind in "uxXo" and number < 0:
                number += 1 << 64
            return f"{spec}{'d' if kind in 'iu' else kind}" % number
        if kind in "eEfgG":
            try:
                return f"{spec}{kind}" % float(value or 0)
            except ValueError:
                self.bad.append(value)
                return f"{spec}{kind}" % 0.0
        if kind == "c":
            return f"%{flags.replace('0', '')}{width}s" % value[:1]
        text = _until_stop(value)[0] if kind == "b" else _quoted(value) if kind == "q" else value
        return f"{spec}s" % text


def _quoted(text: str) -> str:
    return re.sub(r"([^\w@%+=:,./-])", r"\\\1", text) or "''"


async def _cd(process: Process, argv: list[str]) -> int:
    words = [word for word in argv[1:] if word not in {"--", "-P", "-L"}]
    target = words[0] if words else process.environment.get("HOME", "/")
    shows = target == "-"
    if shows:
        target = process.environment.get("OLDPWD", process.directory)
    path = process.path(target)
    found = process.machine.files.look(path)
    if found is None or not found.is_directory:
        why = "No such file or directory" if found is None else "Not a directory"
        if process.shell == "bash":
            return process.complain(f"bash: cd: {target}: {why}")
        process.complain(f"sh: cd: can't cd to {target}: {why}")
        return 2
    process.environment |= {"OLDPWD": process.directory, "PWD": path}
    process.unset_exports.discard("OLDPWD")
    process.directory = path
    if shows:
        process.out(f"{path}\n")
    return 0


async def _pwd(process: Process, _argv: list[str]) -> int:
    process.out(f"{process.directory}\n")
    return 0


async def _env(process: Process, argv: list[str]) -> int:
    words, environment, end = argv[1:], dict(process.environment), "\n"
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in {"-i", "-", "--ignore-environment"}:
            environment = {}
        elif option == "-u" and words:
            environment.pop(words.pop(0), None)
        elif option.startswith(("-u", "--unset=")):
            environment.pop(option.removeprefix("--unset=").removeprefix("-u"), None)
        elif option in {"-0", "--null"}:
            end = "\0"
    while words and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    if words and process.run is not None:
        return await process.run(process.child(environment=environment), words)
    process.out("".join(f"{name}={value}{end}" for name, value in environment.items()))
    return 0


async def _printenv(process: Process, argv: list[str]) -> int:
    if len(argv) == 1:
        return await _env(process, argv)
    found = [process.environment[name] for name in argv[1:] if name in process.environment]
    process.out("".join(f"{value}\n" for value in found))
    return int(len(found) != len(argv) - 1)


async def _which(process: Process, argv: list[str]) -> int:
    names = [name for name in argv[1:] if not name.startswith("-")]
    found = [name for name in names if name in COMMANDS or name in {"sh", "bash", "ash", "dash"}]
    process.out("".join(f"/bin/{name}\n" for name in found))
    return int(len(found) != len(names) or not names)


async def _type(process: Process, argv: list[str]) -> int:
    code = 0
    for name in argv[1:]:
        if name in process.functions:
            process.out(f"{name} is a function\n")
        elif (
            name in VARIABLE_COMMANDS
            or name in JOB_COMMANDS
            or name in {"cd", "echo", "exit", "test", "[", "true"}
        ):
            process.out(f"{name} is a shell builtin\n")
        elif name in COMMANDS:
            process.out(f"{name} is /bin/{name}\n")
        else:
            process.out(f"{name}: not found\n")
            code = 127
    return code


async def _seq(process: Process, argv: list[str]) -> int:
    words, separator, equal = argv[1:], "\n", False
    while words and re.match(r"-[^\d.]", words[0]):
        option = words.pop(0)
        equal |= option == "-w"
        if option.startswith("-s"):
            separator = option[2:] or (words.pop(0) if words else "\n")
    for word in words:
        if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)", word):
            return process.complain(f"seq: invalid floating point argument: {word}")
    if not words:
        return process.complain("seq: missing operand")
    places = max(len(word.partition(".")[2]) for word in words[:2] + words[:1])
    scale = 10**places
    numbers = [round(float(word) * scale) for word in words]
    first, step, last = [(scale, scale, numbers[0]), (numbers[0], scale, numbers[-1]), tuple(numbers[:3])][
        len(numbers[:3]) - 1
    ]
    if step == 0:
        return process.complain("seq: increment is 0")
    values = range(first, last + (1 if step > 0 else -1), step)
    width = max((len(f"{value / scale:.{places}f}") for value in (first, last)), default=0) if equal else 0
    while values:
        shown = [
            f"{value / scale:0{width}.{places}f}" if places or width else str(value)
            for value in values[:_AT_ONCE]
        ]
        values = values[_AT_ONCE:]
        process.out(separator.join(shown) + (separator if values else "\n"))
        await sleep(0)
    return 0


async def _yes(process: Process, argv: list[str]) -> int:
    line = (" ".join(argv[1:]) or "y") + "\n"
    while True:
        process.out(line * 16)
        await sleep(0)


COMMANDS: dict[str, Command] = {
    **TEXT_COMMANDS,
    **BYTE_COMMANDS,
    **FILE_COMMANDS,
    **VARIABLE_COMMANDS,
    **JOB_COMMANDS,
    **SYSTEM_COMMANDS,
    **NETWORK_COMMANDS,
    "true": _true, "false": _false, ":": _true, "exit": _exit, "sleep": _sleep, "echo": _echo,
    "printf": _printf, "cd": _cd, "pwd": _pwd, "env": _env, "printenv": _printenv, "which": _which,
    "type": _type, "seq": _seq, "yes": _yes, "expr": expr, "find": find, "sync": _true,
    "ulimit": _true, "umask": _true,
    "clear": _true, "stty": _true, "hash": _true, "nice": _true, "shopt": _true, "alias": _true,
}  # fmt: skip
