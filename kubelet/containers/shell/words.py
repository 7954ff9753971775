"""Splits shell scripts into words: quotes, variables and substitutions, as parts that are expanded later."""

import re
from typing import NamedTuple

_OPERATORS = (";;", "&&", "||", ";", "&", "|", "\n", "(", ")")
_BARE = re.compile(r"[^\s;&|()<>\"'$`]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9?#$@*!-]")
_BRACED = re.compile(
    r"(!?[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[?#$@*!-])(:?[-=+?]|##?|%%?|//?|\^\^?|,,?|:)?(.*)", re.DOTALL
)
_ANSI_C = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_ANSI_C_CHARACTERS = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v",
}  # fmt: skip
_WORD_ENDS = " \t\r\n;&|()<>"


class ShellSyntaxError(ValueError):
    """The script does not parse; the text names the unexpected token."""


class Part(NamedTuple):
    """A piece of a word: `literal`, `variable` (maybe with an operator), `command` or `arithmetic`."""

    kind: str
    text: str
    quoted: bool = False
    operator: str = ""
    argument: str = ""


Word = tuple[Part, ...]


class WordReader:
    """Reads a script word by word."""

    def __init__(self, text: str) -> None:
        self._text = _joined(text)
        self._at = 0

    def rest(self) -> str:
        self._skip_blanks()
        return self._text[self._at :]

    def unexpected(self) -> ShellSyntaxError:
        found = self._peek() or self._text[self._at : self._at + 10]
        shown = "newline" if found in {"", "\n"} else f'"{found}"'
        return ShellSyntaxError(f"syntax error: unexpected {shown}")

    def _skip_blanks(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in " \t\r":
            self._at += 1
        if self._text.startswith("#", self._at):
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end

    def _skip_lines(self) -> None:
        self._skip_blanks()
        while self._text.startswith("\n", self._at):
            self._at += 1
            self._skip_blanks()

    def _peek(self) -> str:
        """Returns the next operator or bare word, empty if there is neither."""
        self._skip_blanks()
        for operator in _OPERATORS:
            if self._text.startswith(operator, self._at):
                return operator
        found = _BARE.match(self._text, self._at)
        return found[0] if found else ""

    def _accept(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._at += len(token)
        return True

    def _expect(self, token: str) -> None:
        self._skip_lines()
        if not self._accept(token):
            raise self.unexpected()

    def _word(self, *, adjacent: bool = False) -> Word:
        """Returns the next word; empty if there is none. `adjacent`: it must begin right here."""
        if not adjacent:
            self._skip_blanks()
        parts: list[Part] = []
        text = self._text
        while self._at < len(text) and text[self._at] not in _WORD_ENDS:
            char = text[self._at]
            if char == "'":
                end = self._find("'", self._at + 1)
                parts.append(Part("literal", text[self._at + 1 : end], quoted=True))
                self._at = end + 1
            elif char == '"':
                self._at += 1
                self._double_quoted(parts)
            elif char == "\\":
                parts.append(Part("literal", text[self._at + 1 : self._at + 2], quoted=True))
                self._at += 2
            elif text.startswith("$'", self._at):
                parts.append(self._ansi_c())
            elif char in "$`":
                parts.append(self._expansion(quoted=False))
            else:
                end = self._at
                while end < len(text) and text[end] not in _WORD_ENDS + "'\"\\$`":
                    end += 1
                parts.append(Part("literal", text[self._at : end]))
                self._at = end
        return tuple(parts)

    def _ansi_c(self) -> Part:
        """Reads `$'…'`, with escapes as in C."""
        end = self._at + 2
        while self._text[end : end + 1] != "'":
            if end >= len(self._text):
                raise ShellSyntaxError("syntax error: unterminated quoted string")
            end += 2 if self._text[end] == "\\" else 1
        text, self._at = self._text[self._at + 2 : end], end + 1
        return Part("literal", _ANSI_C.sub(_ansi_c_character, text), quoted=True)

    def _find(self, char: str, start: int) -> int:
        end = self._text.find(char, start)
        if end < 0:
            raise ShellSyntaxError("syntax error: unterminated quoted string")
        return end

    def set_text(self, text: str) -> None:
        """Starts to read this text instead."""
        self._text, self._at = text, 0

    def whole(self) -> Word:
        """Reads all of the text as one word, in which blanks and operators stand for themselves."""
        parts: list[Part] = []
        while self._at < len(self._text):
            word = self._word(adjacent=True)
            parts += word
            if not word:
                parts.append(Part("literal", self._text[self._at]))
                self._at += 1
        return tuple(parts)

    def double_quoted(self) -> list[Part]:
        """Reads up to the next double quote, as between two."""
        parts: list[Part] = []
        self._double_quoted(parts)
        return parts

    def _double_quoted(self, parts: list[Part]) -> None:
        parts.append(Part("literal", "", quoted=True))
        plain = ""
        while True:
            if self._at >= len(self._text):
                raise ShellSyntaxError("syntax error: unterminated quoted string")
            char = self._text[self._at]
            if char in '$`"' and plain:
                parts.append(Part("literal", plain, quoted=True))
                plain = ""
            if char == '"':
                self._at += 1
                return
            if char == "\\" and self._text[self._at + 1 : self._at + 2] in {"$", "`", '"', "\\"}:
                plain += self._text[self._at + 1]
                self._at += 2
            elif char in "$`":
                parts.append(self._expansion(quoted=True))
            else:
                plain += char
                self._at += 1

    def _expansion(self, *, quoted: bool) -> Part:
        text, start = self._text, self._at
        if text[start] == "`":
            end = start + 1
            while text[end : end + 1] != "`":
                if end >= len(text):
                    raise ShellSyntaxError("syntax error: EOF in backquote substitution")
                end += 2 if text[end] == "\\" else 1
            self._at = end + 1
            return Part("command", re.sub(r"\\([`$\\])", r"\1", text[start + 1 : end]), quoted)
        if text.startswith("$((", start):
            end = self._balanced(start + 1)
            self._at = end + 1
            return Part("arithmetic", text[start + 3 : end - 1], quoted)
        if text.startswith("$(", start):
            end = self._balanced(start + 1)
            self._at = end + 1
            return Part("command", text[start + 2 : end], quoted)
        if text.startswith("${", start):
            end = self._closing_brace(start + 2)
            self._at = end + 1
            return _braced(text[start + 2 : end], quoted)
        found = _VARIABLE.match(text, start + 1)
        if found is None:
            self._at = start + 1
            return Part("literal", "$", quoted)
        self._at = found.end()
        return Part("variable", found[0], quoted)

    def _closing_brace(self, start: int) -> int:
        """Returns the position where the brace closes that opened before `start`."""
        return self._closing(start, "{", "}", "syntax error: unterminated ${")

    def _balanced(self, start: int) -> int:
        """Returns the position where the parenthesis that opens at `start` closes."""
        return self._closing(start + 1, "(", ")", "syntax error: unterminated $(")

    def _closing(self, at: int, opening: str, closing: str, complaint: str) -> int:
        depth, quote = 1, ""
        while at < len(self._text):
            char = self._text[at]
            if char == "\\" and quote != "'":
                at += 1
            elif quote:
                quote = "" if char == quote else quote
            elif char in "'\"":
                quote = char
            elif char == closing:
                depth -= 1
                if not depth:
                    return at
            elif char == opening and (opening == "(" or self._text[at - 1] == "$"):
                depth += 1
            at += 1
        raise ShellSyntaxError(complaint)


def _joined(text: str) -> str:
    """Joins lines that end with a backslash, except within single quotes."""
    if "\\\n" not in text:
        return text
    pieces = re.split(r"('[^']*')", text)
    return "".join(piece if piece.startswith("'") else piece.replace("\\\n", "") for piece in pieces)


def _ansi_c_character(found: re.Match[str]) -> str:
    escape = found[1]
    if escape[0] == "x":
        return chr(int(escape[1:], 16))
    if escape[0] in "01234567":
        return chr(int(escape, 8) & 0xFF)
    return _ANSI_C_CHARACTERS.get(escape, escape if escape in "\\'\"?" else f"\\{escape}")


def _braced(text: str, quoted: bool) -> Part:
    if text.startswith("#") and len(text) > 1:
        return Part("variable", text[1:], quoted, "length")
    found = _BRACED.fullmatch(text)
    if found is None or (found[3] and not found[2]):
        raise ShellSyntaxError("syntax error: bad substitution")
    return Part("variable", found[1], quoted, found[2] or "", found[3])
