"""Expands words into arguments: variables, substitutions, fields and patterns."""

import fnmatch
import re

from kubeskew.kubelet.containers.execution.files import FileError, join
from kubeskew.kubelet.containers.execution.process import Process, gather
from kubeskew.kubelet.containers.execution.waiting import MEMORY_SPENT, ExitError
from kubeskew.kubelet.containers.shell.arithmetic import ExpressionError, evaluate
from kubeskew.kubelet.containers.shell.parameters import (
    Parameter,
    joined_arguments,
    parameter_value,
    variable,
)
from kubeskew.kubelet.containers.shell.words import Part, Word

_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})  # assign without splitting
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PATTERN_SIGNS = re.compile(r"[*?\[]")
_BRACES = re.compile(r"\{([^{}\s]*(?:,|\.\.)[^{}\s]*)\}")
_MOST_CHARACTERS, _MOST_WORDS = 1 << 22, 1 << 18


async def expand(process: Process, words: list[Word]) -> list[str]:
    """Returns the arguments: words expanded, split where unquoted, with file names for patterns."""
    found: list[str] = []
    first = words[0][0].text if words and len(words[0]) == 1 else ""
    if first == "[[":
        return [await expand_one(process, word) for word in words]
    for word in words if process.shell != "bash" else _with_braces(words):
        if first in _DECLARING and _is_assignment(word):
            found.append(await expand_one(process, word))
            continue
        for text, pattern in await _fields(process, word):
            matches = _matches(process, pattern) if _PATTERN_SIGNS.search(pattern) else []
            found += matches or [text]
        _afford(found)
    return found


def _with_braces(words: list[Word]) -> list[Word]:
    """Returns `a{b,c}` and `{1..3}` as several words, which is bash's own."""
    found: list[Word] = []
    for word in words:
        literals = ((n, part) for n, part in enumerate(word) if part.kind == "literal" and not part.quoted)
        matches = ((n, match) for n, part in literals if (match := _BRACES.search(part.text)))
        first = next(matches, None)
        if first is None:
            found.append(word)
            continue
        at, match = first
        head, tail = word[at].text[: match.start()], word[at].text[match.end() :]
        for choice in _choices(match[1]):
            part = word[at]._replace(text=head + choice + tail)
            found += _with_braces([(*word[:at], part, *word[at + 1 :])])
    return found


def _choices(text: str) -> list[str]:
    numbers = re.fullmatch(r"(-?\d{1,6})\.\.(-?\d{1,6})", text)
    if numbers is None:
        return text.split(",") if "," in text else ["{" + text.replace("..", "\0") + "}"]
    first, last = int(numbers[1]), int(numbers[2])
    step = 1 if first <= last else -1
    return [str(number) for number in range(first, last + step, step)]


def _is_assignment(word: Word) -> bool:
    return word[0].kind == "literal" and not word[0].quoted and _ASSIGNMENT.match(word[0].text) is not None


async def expand_one(process: Process, word: Word) -> str:
    """Expands a word without splitting it, as in assignments and redirects."""
    parts = [await _value(process, part) for part in word]
    _afford(parts)
    return _with_home(process, word, "".join(parts))


async def expand_pattern(process: Process, word: Word) -> str:
    """Expands a word to a pattern, whose quoted characters stand for themselves."""
    texts = [await _value(process, part) for part in word]
    return "".join(_literal(text) if part.quoted else text for text, part in zip(texts, word, strict=True))


def _literal(text: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", text)


def _with_home(process: Process, word: Word, text: str) -> str:
    first = word[0] if word else None
    if first is None or first.kind != "literal" or first.quoted or not re.match(r"~(/|$)", first.text):
        return text
    return process.environment.get("HOME", "/root") + text[1:]


def _afford(texts: list[str]) -> None:
    """Ends a script whose words grow without bounds."""
    if len(texts) > _MOST_WORDS or sum(map(len, texts)) > _MOST_CHARACTERS:
        raise ExitError(MEMORY_SPENT)


class _Fields:
    """Collects the fields of one word: their text, and the same as a pattern."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self._text = self._pattern = ""
        self._begun = False

    def add(self, text: str, *, quoted: bool) -> None:
        self._text += text
        self._pattern += _literal(text) if quoted else text
        self._begun = True

    def end(self) -> None:
        if self._begun:
            self.done.append((self._text, self._pattern))
        self._text = self._pattern = ""
        self._begun = False

    def add_split(self, text: str, separators: str) -> None:
        """Adds unquoted text: white space ends a field, and so does every other separator."""
        blank = "".join(char for char in separators if char in " \t\n")
        for piece in re.findall(_splitter(separators, blank), text):
            if piece.strip(separators):
                self.add(piece, quoted=False)
            elif piece.strip(blank):
                self._begun = True
                self.end()
            else:
                self.end()


def _splitter(separators: str, blank: str) -> str:
    inner, white = re.escape(separators), re.escape(blank)
    hard = "".join(char for char in separators if char not in blank)
    between = f"[{white}]*[{re.escape(hard)}][{white}]*" if hard and blank else f"[{re.escape(hard)}]"
    soft = f"|[{white}]+" if blank else ""
    return f"[^{inner}]+" + (f"|{between}" if hard else "") + soft


async def _fields(process: Process, word: Word) -> list[tuple[str, str]]:
    """Returns (text, pattern) of each field."""
    fields = _Fields()
    separators = variable(process, "IFS")
    separators = " \t\n" if separators is None else separators
    for number, part in enumerate(word):
        if part.kind == "variable" and part.text == "@" and part.quoted and not part.operator:
            for count, argument in enumerate(process.arguments[1:]):
                if count:
                    fields.end()
                fields.add(argument, quoted=True)
            continue
        text = await _value(process, part)
        if part.kind == "literal" and not part.quoted and not number:
            text = _with_home(process, word, text)
        if part.kind == "literal" and not part.text and part.quoted and _holds_arguments(word):
            continue
        if part.kind == "literal" or part.quoted or not separators:
            if text or part.kind == "literal" or part.quoted:
                fields.add(text, quoted=part.quoted)
        else:
            fields.add_split(text, separators)
    fields.end()
    return fields.done


def _holds_arguments(word: Word) -> bool:
    """Returns whether the word contains `"$@"`, which may expand to no field at all."""
    return any(part.kind == "variable" and part.text == "@" and part.quoted for part in word)


async def _value(process: Process, part: Part) -> str:
    if part.kind == "literal":
        return part.text
    if part.kind == "command":
        collected = bytearray()
        if process.run_text is not None:
            process.status = await process.run_text(process.child(stdout=gather(collected)), part.text)
        return collected.decode("utf-8", "surrogateescape").replace("\0", "").rstrip("\n")
    if part.kind == "arithmetic":
        return await arithmetic(process, part.text)
    if part.text == "*" and part.quoted and not part.operator:
        return joined_arguments(process)
    argument = Parameter(part.text, part.operator, part.argument)
    return await parameter_value(process, argument, _expand_text, arithmetic)


async def arithmetic(process: Process, text: str) -> str:
    """Returns the value of an expression. Raises ExitError for an invalid one."""
    if "$" in text or "`" in text:
        text = await _expand_text(process, text)
    try:
        return str(evaluate(text, lambda name: variable(process, name) or "0", process.assign))
    except ExpressionError as error:
        process.complain(f"{process.shell}: {error}")
        raise ExitError(1 if process.shell == "bash" else 2) from None


async def _expand_text(process: Process, text: str, *, is_pattern: bool = False) -> str:
    """Expands the text in braces after an operator."""
    from kubeskew.kubelet.containers.shell.words import WordReader

    reader = WordReader("")
    reader.set_text(text)
    word = reader.whole()
    return await (expand_pattern if is_pattern else expand_one)(process, word)


def _matches(process: Process, pattern: str) -> list[str]:
    """Returns the paths that match a pattern, sorted; one path component at a time."""
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
