"""Words as arguments: variables, substitutions, fields and patterns."""

import fnmatch
import re

from kubelet.shell.arithmetic import ExpressionError, evaluate
from kubelet.shell.files import FileError, join
from kubelet.shell.parsing import Command, parse
from kubelet.shell.process import MEMORY_SPENT, ExitError, Process, gather
from kubelet.shell.words import Part, Word

_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})  # assign without splitting
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_MOST_CHARACTERS, _MOST_WORDS = 1 << 22, 1 << 18


async def expand(process: Process, words: list[Word]) -> list[str]:
    """Words as arguments: expanded, split where unquoted, with file names for patterns."""
    found: list[str] = []
    declares = bool(words) and len(words[0]) == 1 and words[0][0].text in _DECLARING
    for word in words:
        if declares and _is_assignment(word):
            found.append(await expand_one(process, word))
            continue
        for text, quoted in await _fields(process, word):
            matches = [] if quoted or not re.search(r"[*?\[]", text) else _matches(process, text)
            found += matches or [text]
        _afford(found)
    return found


def _is_assignment(word: Word) -> bool:
    return word[0].kind == "literal" and not word[0].quoted and _ASSIGNMENT.match(word[0].text) is not None


async def expand_one(process: Process, word: Word) -> str:
    """A word where it is not split: assignments and redirects."""
    parts = [await _value(process, part) for part in word]
    _afford(parts)
    return "".join(parts)


def _afford(texts: list[str]) -> None:
    """End a script whose words grow without bounds."""
    if len(texts) > _MOST_WORDS or sum(map(len, texts)) > _MOST_CHARACTERS:
        raise ExitError(MEMORY_SPENT)


async def _fields(process: Process, word: Word) -> list[tuple[str, bool]]:
    """(text, whether any of it was quoted) of each field."""
    if len(word) == 2 and word[0].text == "" and word[1] == Part("variable", "@", quoted=True):
        return [(argument, True) for argument in process.arguments[1:]]
    if len(word) == 1 and word[0].kind == "variable" and word[0].text == "@" and word[0].quoted:
        return [(argument, True) for argument in process.arguments[1:]]
    fields: list[tuple[str, bool]] = []
    current, begun, quoted = "", False, False
    for part in word:
        text = await _value(process, part)
        if part.kind == "literal" or part.quoted:
            current, begun, quoted = current + text, True, quoted or part.quoted
            continue
        pieces = text.split()
        if text[:1].isspace() and begun and current:
            fields.append((current, quoted))
            current, begun = "", False
        for number, piece in enumerate(pieces):
            if number:
                fields.append((current, quoted))
                current = ""
            current, begun = current + piece, True
        if text[-1:].isspace() and pieces:
            fields.append((current, quoted))
            current, begun = "", False
    return [*fields, (current, quoted)] if begun else fields


async def _value(process: Process, part: Part) -> str:
    if part.kind == "literal":
        return part.text
    if part.kind == "command":
        collected = bytearray()
        if process.run_text is not None:
            process.status = await process.run_text(process.child(stdout=gather(collected)), part.text)
        return collected.decode("utf-8", "replace").rstrip("\n")
    if part.kind == "arithmetic":
        try:
            return str(evaluate(part.text, lambda name: variable(process, name) or "0"))
        except ExpressionError as error:
            process.complain(f"sh: arithmetic: {error}")
            raise ExitError(2) from None
    return await _variable(process, part)


async def _variable(process: Process, part: Part) -> str:
    value, operator = variable(process, part.text), part.operator
    if operator == "length":
        return str(len(value or ""))
    if operator in {"#", "##", "%", "%%"}:
        return _trimmed(value or "", operator, await _argument(process, part))
    missing = value is None or (operator.startswith(":") and not value)
    kind = operator[-1:]
    if kind == "+":
        return "" if missing else await _argument(process, part)
    if not missing or not kind:
        return value or ""
    argument = await _argument(process, part)
    if kind == "=":
        process.assign(part.text, argument)
    if kind == "?":
        process.complain(f"sh: {part.text}: {argument or 'parameter not set'}")
        raise ExitError(2)
    return argument


async def _argument(process: Process, part: Part) -> str:
    text = part.argument.replace('"', "")
    script = parse(f'echo "{text}"') if text else None
    if script is None:
        return ""
    command = script.pipelines[0].statements[0]
    assert isinstance(command, Command)  # noqa: S101 - as it was written above
    return await expand_one(process, command.words[1])


def _trimmed(value: str, operator: str, pattern: str) -> str:
    cuts = range(len(value) + 1)
    if operator in {"##", "%"}:
        cuts = reversed(cuts)  # type: ignore[assignment] # both are walked once
    for cut in cuts:
        part, rest = (value[:cut], value[cut:]) if operator[0] == "#" else (value[cut:], value[:cut])
        if fnmatch.fnmatchcase(part, pattern):
            return rest
    return value


def variable(process: Process, name: str) -> str | None:
    """A variable, a positional or special parameter; None if there is none."""
    if name.isdigit():
        number = int(name)
        return process.arguments[number] if number < len(process.arguments) else None
    special = {
        "?": str(process.status),
        "#": str(max(0, len(process.arguments) - 1)),
        "$": "1" if process.machine.is_main else "7",
        "@": " ".join(process.arguments[1:]),
        "*": " ".join(process.arguments[1:]),
        "PWD": process.directory,
    }
    if name in special:
        return special[name]
    return process.variables.get(name, process.environment.get(name))


def _matches(process: Process, pattern: str) -> list[str]:
    """The paths that a pattern stands for, sorted; a component at a time."""
    absolute = pattern.startswith("/")
    found = [""]
    for component in [part for part in pattern.split("/") if part]:
        following = []
        for base in found:
            directory = join("/" if absolute else process.directory, base)
            try:
                names = process.machine.files.names(directory)
            except FileError:
                continue
            hidden = component.startswith(".")
            chosen = [n for n in names if fnmatch.fnmatchcase(n, component) and (hidden or n[0] != ".")]
            following += [f"{base}/{name}" if base else name for name in chosen]
        found = following
    return [f"/{path}" if absolute else path for path in found]
