"""`diff`: the normal and the unified form."""

import difflib

from kubeskew.kubelet.containers.execution.files import FileError
from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.tools.inputs import text_inputs, text_of
from kubeskew.kubelet.containers.tools.options import options_of

_TROUBLE = 2


async def diff(process: Process, argv: list[str]) -> int:
    """`diff [-u] [-U LINES] [-q] [-r] [-b] [-i] FIRST SECOND`: 0 if equal, 1 if not, 2 after an error."""
    options, paths = options_of(argv, "UL")
    if len(paths) != 2:
        process.complain("diff: missing operand")
        return _TROUBLE
    files = process.machine.files
    found = []
    for path in paths:
        try:
            file = files.look(process.path(path)) if path != "-" else None
            if file is not None and file.is_directory:
                return await _directories(process, options, paths)
            found.append(await process.read_all() if path == "-" else files.read(process.path(path)))
        except FileError as error:
            process.complain(f"diff: can't stat '{path}': {error.text}")
            return _TROUBLE
    return _show(process, options, paths, [text_of(data) for data in found])


async def _directories(process: Process, options: dict[str, str], paths: list[str]) -> int:
    files = process.machine.files
    try:
        names = [set(files.names(process.path(path))) for path in paths]
    except FileError:
        names = [set(), set()]
    code = 0
    for name in sorted(names[0] | names[1]):
        inner = [f"{path.rstrip('/')}/{name}" for path in paths]
        if name not in names[0] or name not in names[1]:
            process.out(f"Only in {paths[int(name not in names[0])]}: {name}\n")
            code = 1
            continue
        entries = [files.look(process.path(path)) for path in inner]
        if all(entry is not None and entry.data is not None for entry in entries):
            texts = [text_of(entry.data or b"") for entry in entries if entry is not None]
            if texts[0] != texts[1] and "q" not in options:
                process.out(f"diff -{'u' if 'u' in options else 'r'} {inner[0]} {inner[1]}\n")
            code = _show(process, options, inner, texts) or code
        elif "r" in options:
            code = await _directories(process, options, inner) or code
    return code


def _show(process: Process, options: dict[str, str], paths: list[str], texts: list[str]) -> int:
    lines = [text_inputs(text) for text in texts]
    keys = [[_key(line, options) for line in file_lines] for file_lines in lines]
    if keys[0] == keys[1]:
        return 0
    if "q" in options:
        process.out(f"Files {paths[0]} and {paths[1]} differ\n")
        return 1
    matcher = difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    if "u" in options or "U" in options or process.machine.is_busybox:
        process.out(f"--- {paths[0]}\n+++ {paths[1]}\n")
        for group in matcher.get_grouped_opcodes(int(options.get("U") or 3)):
            process.out(_hunk(group, lines))
    else:
        for kind, a1, a2, b1, b2 in matcher.get_opcodes():
            if kind != "equal":
                process.out(_change(kind, (a1, a2, b1, b2), lines))
    return 1


def _key(line: str, options: dict[str, str]) -> str:
    if {"b", "w"} & options.keys():
        line = ("" if "w" in options else " ").join(line.split())
    return line.lower() if "i" in options else line


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _span(first: int, last: int) -> str:
    return f"{first + 1}" if last - first <= 1 else f"{first + 1},{last}"


def _change(kind: str, at: tuple[int, int, int, int], lines: list[list[str]]) -> str:
    a1, a2, b1, b2 = at
    left = str(a1) if kind == "insert" else _span(a1, a2)
    right = str(b1) if kind == "delete" else _span(b1, b2)
    letter = {"insert": "a", "delete": "d", "replace": "c"}[kind]
    out = f"{left}{letter}{right}\n" + "".join(f"< {_ended(line)}" for line in lines[0][a1:a2])
    out += "---\n" if kind == "replace" else ""
    return out + "".join(f"> {_ended(line)}" for line in lines[1][b1:b2])


def _hunk(group: list[tuple[str, int, int, int, int]], lines: list[list[str]]) -> str:
    a1, a2, b1, b2 = group[0][1], group[-1][2], group[0][3], group[-1][4]

    def span(first: int, last: int) -> str:
        count = last - first
        return f"{first + (count > 0)}" + ("" if count == 1 else f",{count}")

    out = f"@@ -{span(a1, a2)} +{span(b1, b2)} @@\n"
    for kind, c1, c2, d1, d2 in group:
        if kind == "equal":
            out += "".join(f" {_ended(line)}" for line in lines[0][c1:c2])
            continue
        out += "".join(f"-{_ended(line)}" for line in lines[0][c1:c2])
        out += "".join(f"+{_ended(line)}" for line in lines[1][d1:d2])
    return out
