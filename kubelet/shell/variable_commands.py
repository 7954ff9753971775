"""The shell's own commands that declare variables, and list them in words that a shell reads again."""

import re
from collections.abc import Awaitable, Callable

from kubelet.shell.process import Process

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
    lines = {name: f"declare -x {name}" for name in process.unset_exports}
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
    _, words = _options(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            process.assign(name, value)
    return 0


async def _unset(process: Process, argv: list[str]) -> int:
    _, names = _options(argv)
    for name in names:
        process.environment.pop(name, None)
        process.variables.pop(name, None)
        process.unset_exports.discard(name)
    return 0


def _options(argv: list[str]) -> tuple[str, list[str]]:
    """(the letters of the options, the other words)."""
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
    lines = dict.fromkeys(process.unset_exports, "")
    if process.shell == "bash":
        lines |= {name: f"={_in_bash(value)}" for name, value in process.environment.items()}
        return [f"declare -x {name}{lines[name]}\n" for name in sorted(lines)]
    lines |= {name: f"={in_single_quotes(value)}" for name, value in process.environment.items()}
    return [f"export {name}{lines[name]}\n" for name in sorted(lines)]


def in_single_quotes(text: str) -> str:
    """As ash and dash write a value."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _in_bash(text: str) -> str:
    """As bash writes a value: in double quotes, or in `$'…'` if it has control characters."""
    if not _CONTROL.search(text):
        escaped = _ESCAPED_IN_DOUBLE_QUOTES.sub(r"\\\1", text)
        return f'"{escaped}"'
    text = text.replace("\\", "\\\\").replace("'", "\\'")
    shown = _CONTROL.sub(lambda found: _SHORT_ESCAPES.get(found[0], f"\\{ord(found[0]):03o}"), text)
    return f"$'{shown}'"


VARIABLE_COMMANDS: dict[str, Command] = {
    "export": _export, "declare": _declare, "typeset": _declare, "local": _local, "unset": _unset,
}  # fmt: skip
