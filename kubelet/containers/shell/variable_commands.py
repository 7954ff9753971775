"""The shell's own commands that declare variables, and list them in a form that a shell reads again."""

import re
from collections.abc import Awaitable, Callable, Collection

from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.shell.parameters import variable
from kubeskew.kubelet.containers.tools.options import options_of

Command = Callable[[Process, list[str]], Awaitable[int]]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPED_IN_DOUBLE_QUOTES = re.compile(r'(["\\$`])')
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHORT_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\a": "\\a", "\b": "\\b", "\x1b": "\\E"}


async def _export(process: Process, argv: list[str]) -> int:
    """`export [-np] [NAME[=VALUE] …]`; without names all that is exported is listed."""
    options, words = _options(argv)
    if not words:
        process.out("".join(_exported_lines(process)))
        return 0
    code = 0
    for word in words:
        name, equals, value = word.partition("=")
        if not _NAME.fullmatch(name):
            code = _bad_name(process, argv[0], word, name)
        elif "n" in options:
            _unexport(process, name, value if equals else None)
        else:
            _mark_exported(process, name, value if equals else None)
    return code


async def _declare(process: Process, argv: list[str]) -> int:
    """`declare [-xp] [NAME[=VALUE] …]`, a command of bash."""
    options, words = _options(argv)
    if "p" in options or not words:
        return _show_declared(process, words, exported_only="x" in options)
    code = 0
    for word in words:
        name, equals, value = word.partition("=")
        if not _NAME.fullmatch(name):
            code = _bad_name(process, argv[0], word, name)
        elif "x" in options:
            _mark_exported(process, name, value if equals else None)
        elif equals:
            process.assign(name, value)
    return code


def _show_declared(process: Process, names: list[str], *, exported_only: bool) -> int:
    lines = {name: f"declare -x {name}" for name in sorted(process.unset_exports)}
    lines |= {name: f"declare -x {name}={_in_bash(value)}" for name, value in process.environment.items()}
    if not exported_only:
        own = {name: value for name, value in process.variables.items() if _NAME.fullmatch(name)}
        lines |= {name: f"declare -- {name}={_in_bash(value)}" for name, value in own.items()}
    code = 0
    for name in names or sorted(lines):
        if name in lines:
            process.out(f"{lines[name]}\n")
        else:
            code = process.complain(f"bash: declare: {name}: not found")
    return code


async def _local(process: Process, argv: list[str]) -> int:
    """Declares variables that are restored when the function ends."""
    _, words = _options(argv)
    for word in words:
        name, equals, value = word.partition("=")
        process.locals.setdefault(name, process.variables.get(name))
        if equals or process.shell == "bash":
            process.assign(name, value)
    return 0


async def _readonly(process: Process, argv: list[str]) -> int:
    """Assigns variables; later assignments are not refused."""
    _, words = _options(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            process.assign(name, value)
    return 0


async def _set(process: Process, argv: list[str]) -> int:
    """Sets options and arguments of the shell; without arguments, lists its variables."""
    if len(argv) == 1:
        known = {**process.environment, **process.variables}
        names = sorted(name for name in known if _NAME.fullmatch(name))
        process.out("".join(f"{name}={in_single_quotes(known[name])}\n" for name in names))
        return 0
    words = argv[1:]
    while words:
        word = words.pop(0)
        if word == "--" or word[:1] not in {"-", "+"}:
            process.arguments[1:] = words if word == "--" else [word, *words]
            break
        letters = word[1:]
        if letters == "o" and words:
            letters = _LONG_OPTIONS.get(words.pop(0), "")
        flags = "".join(flag for flag in process.variables.get("-", "") if flag not in letters)
        process.variables["-"] = flags + letters if word[0] == "-" else flags
    return 0


_LONG_OPTIONS = {"errexit": "e", "nounset": "u", "xtrace": "x", "pipefail": "P", "noglob": "f"}


async def _read(process: Process, argv: list[str]) -> int:
    """`read [-r] [-d DELIMITER] [-n COUNT] [-p PROMPT] [-t SECONDS] [NAME …]`: a line, split at IFS."""
    options, names = options_of(argv, "dnpt")
    if "p" in options and process.is_terminal:
        process.stderr(options["p"].encode())
    delimiter = (options["d"][:1] or "\0") if "d" in options else "\n"
    limit = int(options["n"]) if options.get("n", "").isdecimal() else 0
    line, complete = await _read_line(process, delimiter.encode(), limit, raw="r" in options)
    names = names or ["REPLY"]
    separators = variable(process, "IFS")
    words = _split(line, " \t\n" if separators is None else separators, len(names))
    if names == ["REPLY"]:
        words = ["".join(char for char, _ in line)]
    for number, name in enumerate(names):
        process.assign(name, words[number] if number < len(words) else "")
    return 0 if complete else 1


async def _read_line(
    process: Process, delimiter: bytes, limit: int, *, raw: bool
) -> tuple[list[tuple[str, bool]], bool]:
    """Returns ((character, whether it was escaped) of a line, whether it has an end)."""
    held = bytearray()
    while delimiter not in held and not (limit and len(held) >= limit):
        data = await process.stdin.read()
        if not data:
            break
        held += data
        if not raw and delimiter == b"\n":
            while held.endswith(b"\\\n") and (more := await process.stdin.read()):
                held += more
            held = bytearray(bytes(held).replace(b"\\\n", b""))
    line, end, rest = bytes(held).partition(delimiter)
    if limit and len(line) >= limit:
        line, end, rest = line[:limit], delimiter, bytes(held)[limit:]
    if rest:
        process.stdin.unread(rest)
    text = line.decode("utf-8", "surrogateescape")
    if raw:
        return [(char, False) for char in text], bool(end)
    found = re.findall(r"\\(.)|([^\\])", text, re.DOTALL)
    return [(escaped or plain, bool(escaped)) for escaped, plain in found], bool(end)


def _split(line: list[tuple[str, bool]], separators: str, count: int) -> list[str]:
    """Returns the first fields, and all that is left as the last one."""
    blank = {char for char in separators if char in " \t\n"}

    def is_in(at: int, chars: Collection[str]) -> bool:
        return at < len(line) and line[at][0] in chars and not line[at][1]

    end = len(line)
    while end and is_in(end - 1, blank):
        end -= 1
    words: list[str] = []
    at = 0
    while at < end and is_in(at, blank):
        at += 1
    while at < end and len(words) < count - 1:
        start = at
        while at < end and not is_in(at, separators):
            at += 1
        words.append("".join(char for char, _ in line[start:at]))
        while at < end and is_in(at, blank):
            at += 1
        if is_in(at, set(separators) - blank):
            at += 1
            while at < end and is_in(at, blank):
                at += 1
    if at < end:
        words.append(_last_field([char for char, _ in line[at:end]], set(separators) - blank))
    return words


def _last_field(chars: list[str], hard: Collection[str]) -> str:
    """Returns the last field without a separator at its end, if the separator ends a single field."""
    text = "".join(chars)
    if text and text[-1] in hard and not any(char in hard for char in text[:-1]):
        return text[:-1]
    return text


async def _shift(process: Process, argv: list[str]) -> int:
    count = int(argv[1]) if len(argv) > 1 and argv[1].isdigit() else 1
    if count > len(process.arguments) - 1:
        return 1
    process.arguments[1 : 1 + count] = []
    return 0


async def _getopts(process: Process, argv: list[str]) -> int:
    """Reads the next option of the arguments, as POSIX specifies."""
    if len(argv) < 3:
        return 2
    letters, name, words = argv[1], argv[2], argv[3:] or process.arguments[1:]
    index, inner = int(variable(process, "OPTIND") or 1), int(process.variables.get(" option", "1"))
    word = words[index - 1] if index <= len(words) else ""
    if not word.startswith("-") or word in {"-", "--"}:
        process.assign("OPTIND", str(index + (word == "--")))
        process.assign(name, "?")
        return 1
    letter, at = word[inner : inner + 1], letters.find(word[inner : inner + 1])
    ends = inner + 1 >= len(word)
    process.variables[" option"] = "1" if ends else str(inner + 1)
    index += ends
    if at < 0 or letter == ":":
        if not letters.startswith(":"):
            process.complain(f"{process.arguments[0]}: illegal option -- {letter}")
        process.assign("OPTARG", letter)
        letter = "?"
    elif letters[at + 1 : at + 2] == ":":
        value = word[inner + 1 :] or (words[index - 1] if index <= len(words) else "")
        index += ends
        process.variables[" option"] = "1"
        index += not ends
        process.assign("OPTARG", value)
    process.assign("OPTIND", str(index))
    process.assign(name, letter)
    return 0


async def _unset(process: Process, argv: list[str]) -> int:
    _, names = _options(argv)
    for name in names:
        process.environment.pop(name, None)
        process.variables.pop(name, None)
        process.unset_exports.discard(name)
        process.functions.pop(name, None)
    return 0


def _options(argv: list[str]) -> tuple[str, list[str]]:
    """Returns (the letters of the options, the other words)."""
    letters = ""
    for number, word in enumerate(argv[1:], 1):
        if word == "--":
            return letters, argv[number + 1 :]
        if not word.startswith("-") or word == "-":
            return letters, argv[number:]
        letters += word[1:]
    return letters, []


def _mark_exported(process: Process, name: str, value: str | None) -> None:
    if value is None:
        value = process.variables.get(name, process.environment.get(name))
    process.variables.pop(name, None)
    if value is None:
        process.unset_exports.add(name)
    else:
        process.unset_exports.discard(name)
        process.environment[name] = value


def _unexport(process: Process, name: str, value: str | None) -> None:
    process.unset_exports.discard(name)
    kept = process.environment.pop(name, None) if value is None else value
    if kept is not None:
        process.environment.pop(name, None)
        process.variables[name] = kept


def _bad_name(process: Process, command: str, word: str, name: str) -> int:
    if process.shell == "bash":
        return process.complain(f"bash: {command}: `{word}': not a valid identifier")
    return process.complain(f"sh: {command}: {name}: bad variable name") + 1


def _exported_lines(process: Process) -> list[str]:
    lines = dict.fromkeys(sorted(process.unset_exports), "")
    if process.shell == "bash":
        lines |= {name: f"={_in_bash(value)}" for name, value in process.environment.items()}
        return [f"declare -x {name}{lines[name]}\n" for name in sorted(lines)]
    lines |= {name: f"={in_single_quotes(value)}" for name, value in process.environment.items()}
    return [f"export {name}{lines[name]}\n" for name in sorted(lines)]


def in_single_quotes(text: str) -> str:
    """Quotes a value as ash and dash write it."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _in_bash(text: str) -> str:
    """Quotes a value as bash writes it: in double quotes, or in `$'…'` if it has control characters."""
    if not _CONTROL.search(text):
        escaped = _ESCAPED_IN_DOUBLE_QUOTES.sub(r"\\\1", text)
        return f'"{escaped}"'
    text = text.replace("\\", "\\\\").replace("'", "\\'")
    shown = _CONTROL.sub(lambda found: _SHORT_ESCAPES.get(found[0], f"\\{ord(found[0]):03o}"), text)
    return f"$'{shown}'"


VARIABLE_COMMANDS: dict[str, Command] = {
    "export": _export, "declare": _declare, "typeset": _declare, "local": _local, "unset": _unset,
    "readonly": _readonly, "set": _set, "read": _read, "shift": _shift, "getopts": _getopts,
}  # fmt: skip
