"""Reads the inputs of commands: files by name, or the standard input."""

import re

from kubeskew.kubelet.containers.execution.files import FileError
from kubeskew.kubelet.containers.execution.process import Process

_CODING, _ERRORS = "utf-8", "surrogateescape"


async def inputs(process: Process, name: str, paths: list[str]) -> tuple[list[tuple[str, bytes]], int]:
    """Returns ((path, content) of each file or the standard input, exit code)."""
    found, code = [], 0
    for path in paths or ["-"]:
        if path == "-" or path == "/dev/stdin":
            found.append((path, await process.read_all()))
            continue
        try:
            found.append((path, process.machine.files.read(process.path(path))))
        except FileError as error:
            code = process.complain(f"{name}: {path}: {error.text}")
    return found, code


async def texts_of(process: Process, name: str, paths: list[str]) -> tuple[list[str], int]:
    """Returns (the texts, exit code)."""
    found, code = await inputs(process, name, paths)
    return [text_of(data) for _, data in found], code


def text_of(data: bytes) -> str:
    """Decodes any bytes to a text that `Process.out` writes as the same bytes."""
    return data.decode(_CODING, _ERRORS)


def text_inputs(text: str) -> list[str]:
    """Returns the lines, each with its end."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def lines_of(text: str) -> list[str]:
    """Returns the lines without their ends."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines
