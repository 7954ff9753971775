"""Redirects the inputs and outputs of commands."""

from collections.abc import Callable
from dataclasses import replace

from kubeskew.kubelet.containers.execution.files import FileError
from kubeskew.kubelet.containers.execution.process import BytesInput, Process
from kubeskew.kubelet.containers.shell.expanding import expand_one
from kubeskew.kubelet.containers.shell.parsing import Redirect

_TO_STDOUT = {"/dev/stdout", "/proc/1/fd/1", "/proc/self/fd/1", "/dev/fd/1"}
_TO_STDERR = {"/dev/stderr", "/proc/1/fd/2", "/proc/self/fd/2", "/dev/fd/2"}


async def redirected(process: Process, redirects: list[Redirect]) -> Process:
    """Returns a process that shares variables with `process`, with its inputs and outputs redirected.

    Raises FileError.
    """
    inner = replace(process)
    for redirect in redirects:
        target = await expand_one(process, redirect.target)
        _redirect(inner, redirect, target)
    return inner


def _redirect(inner: Process, redirect: Redirect, target: str) -> None:
    if redirect.operator in {"<<", "<<<"}:
        inner.stdin = BytesInput((target if redirect.operator == "<<" else f"{target}\n").encode())
    elif redirect.operator in {">&", "<&"} and target in {"0", "1", "2", "-"}:
        _duplicate(inner, redirect.descriptor, target)
    elif redirect.operator.startswith("<"):
        inner.stdin = BytesInput(_read(inner, target))
    else:
        writer = _writer(inner, target, append=redirect.operator == ">>")
        if redirect.descriptor in {"1", "&"} or redirect.operator == ">&":
            inner.stdout = writer
        if redirect.descriptor in {"2", "&"} or redirect.operator == ">&":
            inner.stderr = writer


def _duplicate(inner: Process, descriptor: str, target: str) -> None:
    if target == "-":
        output: Callable[[bytes], None] = _discard
    elif target == "0":
        return
    else:
        output = inner.stdout if target == "1" else inner.stderr
    if descriptor == "0":
        inner.stdin = BytesInput() if target == "-" else inner.stdin
    elif descriptor == "2":
        inner.stderr = output
    else:
        inner.stdout = output


def _discard(_: bytes) -> None:
    """Discards what is written, as /dev/null and a closed descriptor do."""


def _read(process: Process, target: str) -> bytes:
    path = process.path(target)
    if path == "/dev/null":
        return b""
    try:
        return process.machine.files.read(path)
    except FileError as error:
        if process.shell == "bash":
            raise FileError(f"{target}: {error.text}") from None
        shown = error.text.lower().replace("no such file or directory", "no such file")
        raise FileError(f"can't open {target}: {shown}") from None


def _writer(process: Process, target: str, *, append: bool) -> Callable[[bytes], None]:
    path, files = process.path(target), process.machine.files
    if path == "/dev/null":
        return _discard
    if path in _TO_STDOUT:
        return process.stdout
    if path in _TO_STDERR:
        return process.stderr
    try:
        files.write(path, b"", process.timestamp(), append=append)
    except FileError as error:
        if process.shell == "bash":
            raise FileError(f"{target}: {error.text}") from None
        shown = "nonexistent directory" if error.text == "No such file or directory" else error.text
        raise FileError(f"can't create {target}: {shown}") from None
    return lambda data: files.write(path, data, process.timestamp(), append=True)
