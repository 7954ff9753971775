"""Expands parameters of the shell: variables, arguments, `$?` and the like, and `${NAME…}` with an
operator."""

import fnmatch
import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.execution.waiting import ExitError


class Parameter(NamedTuple):
    """`${name OPERATOR argument}`."""

    name: str
    operator: str
    argument: str


class Expander(Protocol):
    """Expands the text behind an operator."""

    def __call__(self, process: Process, text: str, *, is_pattern: bool = False) -> Awaitable[str]: ...


Evaluator = Callable[[Process, str], Awaitable[str]]


def variable(process: Process, name: str) -> str | None:
    """Returns a variable, or a positional or special parameter; None if it is not set."""
    if name.isdigit():
        number = int(name)
        return process.arguments[number] if number < len(process.arguments) else None
    if name in {"@", "*"}:
        return " ".join(process.arguments[1:])
    if name == "?":
        return str(process.status)
    if name == "#":
        return str(max(0, len(process.arguments) - 1))
    if name == "$":
        return "1" if process.machine.is_main else str(process.machine.tasks.main_pid)
    if name == "PWD":
        return process.directory
    if name == "-":
        return process.variables.get("-", "").replace("P", "")
    return process.variables.get(name, process.environment.get(name))


def joined_arguments(process: Process) -> str:
    """Returns `"$*"`: all arguments with the first separator between them."""
    separators = variable(process, "IFS")
    return (" " if separators is None else separators[:1]).join(process.arguments[1:])


async def parameter_value(
    process: Process, parameter: Parameter, expand: Expander, evaluate: Evaluator
) -> str:
    """Returns the value of the parameter.

    Raises ExitError if the operator requires a value and there is none.
    """
    name, operator, argument = parameter
    if name.startswith("!") and len(name) > 1:
        name = variable(process, name[1:]) or ""
    value = variable(process, name)
    if operator == "length":
        return str(len(value or ""))
    if value is None and operator not in {"-", ":-", "=", ":=", "+", ":+", "?", ":?"}:
        return _unset(process, name)
    if operator in {"#", "##", "%", "%%"}:
        return _trimmed(value or "", operator, await expand(process, argument, is_pattern=True))
    if operator in {"/", "//"}:
        pattern, _, replacement = _halves(argument)
        wanted = await expand(process, pattern, is_pattern=True)
        return _replaced(value or "", operator, wanted, await expand(process, replacement))
    if operator == ":":
        return await _slice(process, value or "", argument, evaluate)
    if operator and operator[0] in "^,":
        return _recased(value or "", operator)
    missing = value is None or (operator.startswith(":") and not value)
    kind = operator[-1:]
    if kind == "+":
        return "" if missing else await expand(process, argument)
    if not missing or not kind:
        return value or ""
    return await _default(process, name, operator, await expand(process, argument))


async def _default(process: Process, name: str, operator: str, argument: str) -> str:
    if operator[-1] == "=":
        process.assign(name, argument)
    if operator[-1] == "?":
        default = "parameter null or not set" if operator[0] == ":" else "parameter not set"
        process.complain(f"{process.shell}: {name}: {argument or default}")
        raise ExitError(127 if process.shell == "bash" else 2)
    return argument


def _unset(process: Process, name: str) -> str:
    if "u" in process.variables.get("-", "") and name not in {"@", "*", "!"}:
        why = "unbound variable" if process.shell == "bash" else "parameter not set"
        process.complain(f"{process.shell}: {name}: {why}")
        raise ExitError(127 if process.shell == "bash" else 2)
    return ""


def _halves(argument: str) -> tuple[str, str, str]:
    """Splits the text at the first slash that is not escaped."""
    found = re.match(r"((?:\\.|[^\\/])+)(/?)(.*)", argument, re.DOTALL)
    return (found[1], found[2], found[3]) if found is not None else (argument, "", "")


def _trimmed(value: str, operator: str, pattern: str) -> str:
    wanted = re.compile(fnmatch.translate(pattern))
    cuts = range(len(value) + 1)
    for cut in reversed(cuts) if operator in {"##", "%"} else cuts:
        part, rest = (value[:cut], value[cut:]) if operator[0] == "#" else (value[cut:], value[:cut])
        if wanted.match(part):
            return rest
    return value


def _replaced(value: str, operator: str, pattern: str, replacement: str) -> str:
    anchor = pattern[:1] if pattern[:1] in {"#", "%"} and operator == "/" else ""
    body = fnmatch.translate(pattern[len(anchor) :])
    body = body.removeprefix("(?s:").removesuffix(")\\Z")  # longest match first, as in the shell
    wanted = f"^(?:{body})" if anchor == "#" else f"(?:{body})$" if anchor == "%" else body
    if not body:
        return value
    return re.sub(f"(?s:{wanted})", lambda _: replacement, value, count=int(operator == "/"))


async def _slice(process: Process, value: str, argument: str, evaluate: Evaluator) -> str:
    first, _, length = argument.partition(":")
    start = int(await evaluate(process, first)) if first.strip() else 0
    start = max(0, len(value) + start) if start < 0 else start
    if not length.strip():
        return value[start:]
    count = int(await evaluate(process, length))
    return value[start : start + count] if count >= 0 else value[start:count]


def _recased(value: str, operator: str) -> str:
    change = str.upper if operator[0] == "^" else str.lower
    return change(value) if len(operator) == 2 else change(value[:1]) + value[1:]
