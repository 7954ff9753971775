"""Runs the statements of a script: pipelines, loops, conditions, functions, and jobs in the background."""

import fnmatch
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace

from kubeskew.kubelet.containers.execution.files import FileError
from kubeskew.kubelet.containers.execution.process import BytesInput, Process
from kubeskew.kubelet.containers.execution.tasks import PipeEnd
from kubeskew.kubelet.containers.execution.waiting import ExitError, sleep
from kubeskew.kubelet.containers.shell import parsing
from kubeskew.kubelet.containers.shell.expanding import arithmetic, expand, expand_one, expand_pattern
from kubeskew.kubelet.containers.shell.lookup import knows, script_at
from kubeskew.kubelet.containers.shell.parsing import (
    Case,
    Command,
    For,
    Function,
    Group,
    If,
    Loop,
    Pipeline,
    Script,
    Statement,
    statement_text,
)
from kubeskew.kubelet.containers.shell.redirecting import redirected

_DEEPEST_CALL = 200
Special = Callable[[Process, Process, list[str]], Awaitable[int]]


class BreakError(Exception):
    """Leaves so many loops, or with `again` begins the next round of the last of them."""

    def __init__(self, levels: int, *, again: bool) -> None:
        super().__init__()
        self.levels = levels
        self.again = again


class ReturnError(Exception):
    """Leaves a function or a sourced script."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


async def run_tree(process: Process, script: Script) -> int:
    """Runs the pipelines in order; returns the exit code of the last. Raises ExitError."""
    pipelines = script.pipelines
    for number, pipeline in enumerate(pipelines):
        code = process.status
        if (pipeline.operator == "&&" and code) or (pipeline.operator == "||" and not code):
            continue
        follows = pipelines[number + 1].operator if number + 1 < len(pipelines) else ""
        tested = pipeline.negated or follows in {"&&", "||"}
        if pipeline.background:
            _spawn(process, pipeline)
            process.status = 0
            continue
        process.conditions += tested
        try:
            code = await _pipeline(process, pipeline.statements)
        finally:
            process.conditions -= tested
        process.status = int(not code) if pipeline.negated else code
        if process.status and not tested and not process.conditions and "e" in process.variables.get("-", ""):
            raise ExitError(process.status)
        if process.machine.tasks.signals:
            await run_signal_traps(process)
    return process.status


# -- traps and the background


async def run_signal_traps(process: Process) -> None:
    """Runs the traps of the main shell for the signals that have come."""
    tasks = process.machine.tasks
    if process.traps is not tasks.main_traps:
        return
    while tasks.signals:
        text = process.traps.get(tasks.signals.pop(0), "")
        if text:
            status = process.status
            await _shared(process, process, parsing.parse(text))
            process.status = status


async def run_exit_trap(process: Process, code: int) -> int:
    """Runs the EXIT trap; returns the shell's exit code."""
    text = process.traps.pop("EXIT", "")
    if not text:
        return code
    process.status = code
    try:
        await run_tree(process, parsing.parse(text))
    except ExitError as end:
        return end.code
    except parsing.ShellSyntaxError:
        pass
    return code


def _spawn(process: Process, pipeline: Pipeline) -> None:
    inner = process.child(stdin=BytesInput())
    text = " | ".join(statement_text(statement) for statement in pipeline.statements)

    async def program() -> int:
        try:
            code = await _pipeline(inner, pipeline.statements)
        except (ExitError, ReturnError) as end:
            return end.code
        return int(not code) if pipeline.negated else code

    task = process.machine.tasks.spawn(program(), text)
    process.jobs.append(task)
    process.variables["!"] = str(task.pid)


# -- statements


async def _pipeline(process: Process, statements: list[Statement]) -> int:
    """Runs the statements at the same time, each reading the output of the one before it."""
    if len(statements) == 1:
        return await _statement(process, statements[0])
    tasks, stdin, before = [], process.stdin, None
    for statement in statements[:-1]:
        pipe = PipeEnd()
        side = _side(process.child(stdin=stdin, stdout=pipe.write), statement, before, pipe)
        tasks.append(process.machine.tasks.spawn(side, statement_text(statement)))
        stdin = before = pipe
    code = await _side(process.child(stdin=stdin), statements[-1], before, None)
    for task in tasks:
        await task.ended()
    if "P" in process.variables.get("-", ""):
        codes = [*(task.code or 0 for task in tasks), code]
        return next((code for code in reversed(codes) if code), 0)
    return code


async def _side(
    process: Process, statement: Statement, source: PipeEnd | None, target: PipeEnd | None
) -> int:
    """Runs one side of a pipe, in a shell of its own."""
    try:
        return await _statement(process, statement)
    except (ExitError, ReturnError) as end:
        return end.code
    except BreakError:
        return 0
    finally:
        if source is not None:
            source.abandon()
        if target is not None:
            target.end()


async def _statement(process: Process, statement: Statement) -> int:
    if isinstance(statement, Command):
        return await _command(process, statement)
    if isinstance(statement, Function):
        process.functions[statement.name] = statement
        return 0
    try:
        inner = await redirected(process, statement.redirects)
    except FileError as error:
        return process.complain(f"{process.shell}: {error.text}")
    if isinstance(statement, Group):
        if not statement.subshell:
            return await _shared(process, inner, statement.body)
        try:
            subshell = inner.child()
            return await run_exit_trap(subshell, await run_tree(subshell, statement.body))
        except (ExitError, ReturnError) as end:
            return end.code
    if isinstance(statement, If):
        return await _if(process, inner, statement)
    if isinstance(statement, For):
        return await _for(process, inner, statement)
    if isinstance(statement, Case):
        return await _case(process, inner, statement)
    return await _loop(process, inner, statement)


async def _shared(process: Process, inner: Process, script: Script) -> int:
    """Runs a script with the outputs of `inner`, and with the variables and directory of `process`."""
    try:
        return await run_tree(inner, script)
    finally:
        process.directory, process.status = inner.directory, inner.status


async def _tested(process: Process, inner: Process, script: Script) -> bool:
    """Returns whether a condition holds; failures in it end nothing."""
    inner.conditions += 1
    try:
        return await _shared(process, inner, script) == 0
    finally:
        inner.conditions -= 1


async def _if(process: Process, inner: Process, statement: If) -> int:
    for condition, body in statement.branches:
        if condition is None or await _tested(process, inner, condition):
            return await _shared(process, inner, body)
    return 0


async def _case(process: Process, inner: Process, statement: Case) -> int:
    value = await expand_one(process, statement.word)
    for patterns, body in statement.items:
        for pattern in patterns:
            if re.match(fnmatch.translate(await expand_pattern(process, pattern)), value):
                return await _shared(process, inner, body) if body.pipelines else 0
    return 0


async def _for(process: Process, inner: Process, statement: For) -> int:
    code = 0
    for value in await expand(process, statement.words):
        inner.assign(statement.name, value)
        await sleep(0)
        try:
            code = await _shared(process, inner, statement.body)
        except BreakError as error:
            if _leaves(error):
                break
    return code


async def _loop(process: Process, inner: Process, statement: Loop) -> int:
    code = 0
    while True:
        await sleep(0)
        try:
            if await _tested(process, inner, statement.condition) == statement.negated:
                return code
            code = await _shared(process, inner, statement.body)
        except BreakError as error:
            if _leaves(error):
                return code


def _leaves(error: BreakError) -> bool:
    """Returns whether this loop ends; raises the error for the loops around it."""
    if error.levels > 1:
        error.levels -= 1
        raise error
    return not error.again


# -- commands


async def _command(process: Process, command: Command) -> int:
    argv = await expand(process, command.words)
    before = process.status
    assigned: dict[str, str] = {}
    for name, word in command.assignments:
        assigned[name] = await expand_one(process, word)
        if not argv:
            process.assign(name, assigned[name])
    try:
        inner = await redirected(process, command.redirects)
    except FileError as error:
        return process.complain(f"{process.shell}: {error.text}")
    if "x" in process.variables.get("-", "") and (argv or assigned):
        shown = [*(f"{name}={value}" for name, value in assigned.items()), *argv]
        process.complain("+ " + " ".join(shown))
    if not argv:
        substitutes = any(part.kind == "command" for _, word in command.assignments for part in word)
        return process.status if substitutes else 0
    inner.status = before
    return await _run_with(process, inner, argv, assigned)


async def _run_with(process: Process, inner: Process, argv: list[str], assigned: dict[str, str]) -> int:
    """Runs a command with variables of its own."""
    special = _SPECIAL.get(argv[0])
    saved = dict(inner.environment)
    inner.environment.update(assigned)
    try:
        if argv[0] in process.functions:
            return await _call(process, inner, argv)
        if special is not None:
            return await special(process, inner, argv)
        assert inner.run is not None  # noqa: S101 - a shell was run by it
        return await inner.run(inner, argv)
    finally:
        if assigned:
            inner.environment.clear()
            inner.environment.update(saved)
        process.directory = inner.directory


async def _call(process: Process, inner: Process, argv: list[str]) -> int:
    """Calls a function of the script; restores `local` variables afterwards."""
    function: Function = process.functions[argv[0]]
    if process.depth >= _DEEPEST_CALL:
        raise RecursionError
    called = replace(inner, arguments=[*process.arguments[:1], *argv[1:]], depth=process.depth + 1, locals={})
    try:
        return await _statement(called, function.body)
    except ReturnError as end:
        return end.code
    finally:
        inner.directory = called.directory
        for name, value in called.locals.items():
            if value is None:
                called.variables.pop(name, None)
            else:
                called.variables[name] = value


def _number(argv: list[str], default: int) -> int:
    return int(argv[1]) if len(argv) > 1 and argv[1].isdecimal() else default


async def _break(_process: Process, _inner: Process, argv: list[str]) -> int:
    raise BreakError(max(1, _number(argv, 1)), again=argv[0] == "continue")


async def _return(process: Process, _inner: Process, argv: list[str]) -> int:
    raise ReturnError(_number(argv, process.status) % 256)


async def _exec(process: Process, inner: Process, argv: list[str]) -> int:
    """Runs a command in the shell's place; without one, its redirects apply from now on."""
    if len(argv) == 1:
        process.stdin, process.stdout, process.stderr = inner.stdin, inner.stdout, inner.stderr
        return 0
    process.traps.clear()
    assert inner.run is not None  # noqa: S101 - a shell was run by it
    raise ExitError(await inner.run(inner, argv[1:]))


async def _eval(process: Process, inner: Process, argv: list[str]) -> int:
    return await _run_text(process, inner, " ".join(argv[1:]))


async def _source(process: Process, inner: Process, argv: list[str]) -> int:
    if len(argv) < 2:
        process.complain(f"{process.shell}: .: filename argument required")
        return 2
    try:
        return await _run_text(process, inner, await script_at(inner, argv[1]))
    except ReturnError as end:
        return end.code


async def _run_text(process: Process, inner: Process, text: str) -> int:
    try:
        return await _shared(process, inner, parsing.parse(text))
    except parsing.ShellSyntaxError as error:
        process.complain(f"{process.shell}: {error}")
        return 2


async def _let(process: Process, _inner: Process, argv: list[str]) -> int:
    value = "0"
    for text in argv[1:]:
        value = await arithmetic(process, text)
    return int(value == "0")


async def _command_builtin(process: Process, inner: Process, argv: list[str]) -> int:
    """Runs `command [-v] NAME …`: skips functions of that name, or prints where it is."""
    words = argv[1:]
    if words[:1] not in (["-v"], ["-V"]):
        assert inner.run is not None  # noqa: S101 - a shell was run by it
        return await inner.run(inner, words) if words else 0
    code = 0
    for name in words[1:]:
        if name in process.functions or name in _SPECIAL or name in _BUILT_IN:
            inner.out(f"{name}\n")
        elif knows(name):
            inner.out(f"{name}\n" if "/" in name else f"/bin/{name}\n")
        else:
            code = 127
    return code


_BUILT_IN = frozenset(
    {"cd", "export", "read", "set", "unset", "trap", "wait", "echo", "test", "[", "true", "false"}
)
_SPECIAL: dict[str, Special] = {
    "break": _break, "continue": _break, "return": _return, "exec": _exec, "eval": _eval, ".": _source,
    "source": _source, "command": _command_builtin, "let": _let,
}  # fmt: skip
