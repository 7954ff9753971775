"""Runs commands: the shells, the fake's own commands from a table, scripts that lie among the files."""

import re

from kubeskew.kubelet.containers.execution.files import FileError
from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.execution.waiting import sleep
from kubeskew.kubelet.containers.shell.commands import COMMANDS
from kubeskew.kubelet.containers.shell.lookup import FOREVER, SHELLS, script_at
from kubeskew.kubelet.containers.shell.scripts import converse, run_script
from kubeskew.kubelet.containers.shell.statements import run_exit_trap

NOT_FOUND = 127


async def run(process: Process, argv: list[str]) -> int:
    """Runs one command; returns its exit code."""
    process.run, process.run_text = run, run_script
    name = argv[0].rsplit("/", 1)[-1]
    if name in SHELLS:
        return await _run_shell(process, argv)
    command = process.machine.programs.get(name) or COMMANDS.get(name)
    if command is None:
        return await _run_file(process, argv)
    try:
        return await command(process, [name, *argv[1:]])
    except FileError as error:
        return process.complain(f"{name}: {error.text}")
    except (ValueError, re.error):
        return process.complain(f"{name}: invalid argument")


async def _run_file(process: Process, argv: list[str]) -> int:
    """Runs the script at the path, if there is one; other files are unknown programs."""
    if "/" in argv[0]:
        file = process.machine.files.look(process.path(argv[0]))
        if file is not None and file.is_directory:
            process.complain(f"{process.shell}: {argv[0]}: {_IS_DIRECTORY[process.shell == 'bash']}")
            return 126
        if file is not None and file.data is not None and file.data.strip():
            inner = process.child(arguments=argv)
            return await run_script(inner, file.data.decode("utf-8", "replace"))
    if process.machine.assumes_programs:
        await sleep(FOREVER)
    process.complain(_not_found(process, argv[0]))
    return NOT_FOUND


_IS_DIRECTORY = {True: "Is a directory", False: "Permission denied"}


def _not_found(process: Process, name: str) -> str:
    if process.shell == "bash":
        return f"bash: {name}: {'No such file or directory' if '/' in name else 'command not found'}"
    return f"sh: {name}: not found"


async def _run_shell(process: Process, argv: list[str]) -> int:
    """Runs a shell: `-c SCRIPT`, a file, or the standard input."""
    inner = _new_shell(process, argv[0].rsplit("/", 1)[-1])
    words, flags, has_script = argv[1:], "", False
    while words and words[0][:1] in {"-", "+"} and words[0] != "-":
        option = words.pop(0)
        if option == "--":
            break
        if option in {"-o", "+o"} and words:
            flags += _LONG_OPTIONS.get(words.pop(0), "")
        elif not option.startswith("--"):
            has_script |= "c" in option
            flags += option[1:].replace("c", "").replace("l", "").replace("i", "")
    if flags:
        inner.variables["-"] = flags
    if has_script:
        if not words:
            return process.complain(f"{argv[0]}: -c requires an argument") + 1
        inner.arguments = words[1:] or [argv[0]]
        return await _end_of_shell(inner, words[0])
    inner.arguments = words or [argv[0]]
    if words:
        return await _end_of_shell(inner, await script_at(inner, words[0]))
    return await converse(inner)


_LONG_OPTIONS = {"errexit": "e", "nounset": "u", "xtrace": "x", "pipefail": "P", "noglob": "f"}


def _new_shell(process: Process, name: str) -> Process:
    """Makes the process of a shell, with the variables that it sets and exports at its start."""
    inner = process.child(variables={}, functions={}, shell=name)
    tasks = process.machine.tasks
    if process.machine.is_main and not tasks.has_shell:
        tasks.has_shell = True
        inner.traps = tasks.main_traps
    level = inner.environment.get("SHLVL", "")
    inner.environment |= {"PWD": inner.directory, "SHLVL": str(int(level) + 1 if level.isdecimal() else 1)}
    if name == "bash" and "OLDPWD" not in inner.environment:
        inner.unset_exports.add("OLDPWD")
    return inner


async def _end_of_shell(process: Process, text: str) -> int:
    """Runs a script, then the shell's EXIT trap."""
    return await run_exit_trap(process, await run_script(process, text))
