"""Shell scripts as trees: the part of POSIX sh that container commands and `kubectl exec` are made of."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATORS = (";;", "&&", "||", ";", "&", "|", "\n", "(", ")")
_REDIRECT = re.compile(r"(\d?|&)(>>|>&|<&|>|<)")
_RESERVED = frozenset({"then", "elif", "else", "fi", "do", "done", "}", "esac"})


class ShellSyntaxError(ValueError):
    """The script is none; the text names what was unexpected."""


class Part(NamedTuple):
    """A piece of a word: `literal`, `variable` (with `operator` and `argument`), `command` or `arithmetic`."""

    kind: str
    text: str
    quoted: bool = False
    operator: str = ""
    argument: str = ""


Word = tuple[Part, ...]


class Redirect(NamedTuple):
    """`descriptor` is 0, 1, 2 or `&` for both outputs; `operator` one of > >> < >& <&."""

    descriptor: str
    operator: str
    target: Word


@dataclass(slots=True)
class Command:
    """Assignments, words and redirects."""

    assignments: list[tuple[str, Word]] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class Loop:
    """`while`, or `until` if `negated`."""

    condition: "Script"
    body: "Script"
    negated: bool
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class For:
    name: str
    words: list[Word]
    body: "Script"
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class If:
    """Pairs of condition and body; the last may have no condition."""

    branches: list[tuple["Script | None", "Script"]]
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class Group:
    """`{ … }`, or `( … )` with variables of its own."""

    body: "Script"
    subshell: bool
    redirects: list[Redirect] = field(default_factory=list)


Statement = Command | Loop | For | If | Group


@dataclass(slots=True)
class Pipeline:
    """`operator` is what stands before it: empty, `;`, `&&` or `||`."""

    operator: str
    statements: list[Statement]
    negated: bool = False
    background: bool = False


@dataclass(slots=True)
class Script:
    pipelines: list[Pipeline]


def parse(text: str) -> Script:
    """The script. Raises ShellSyntaxError."""
    parser = _Parser(text)
    script = parser.script(frozenset())
    if parser.rest():
        raise parser.unexpected()
    return script


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text.replace("\\\n", "")
        self._at = 0

    # -- characters

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
        """The operator or bare word that comes next, empty if there is neither."""
        self._skip_blanks()
        for operator in _OPERATORS:
            if self._text.startswith(operator, self._at):
                return operator
        found = re.compile(r"[^\s;&|()<>\"'$`]+").match(self._text, self._at)
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

    # -- scripts

    def script(self, ends: frozenset[str]) -> Script:
        """Up to a word or operator of `ends`, which is left."""
        pipelines: list[Pipeline] = []
        operator = ""
        while True:
            self._skip_lines()
            token = self._peek()
            if not self.rest() or token in ends:
                break
            if token in _RESERVED or token in {")", ";;"}:
                raise self.unexpected()
            pipelines.append(self._pipeline(operator))
            operator = self._operator(pipelines[-1])
        if operator in {"&&", "||"}:
            raise self.unexpected()
        return Script(pipelines)

    def _operator(self, before: Pipeline) -> str:
        for operator in ("&&", "||"):
            if self._accept(operator):
                return operator
        if self._accept("&"):
            before.background = True
        elif not self._accept(";"):
            self._accept("\n")
        return ";"

    def _pipeline(self, operator: str) -> Pipeline:
        negated = False
        while self._accept("!"):
            negated = not negated
        statements = [self._statement()]
        while self._accept("|"):
            self._skip_lines()
            statements.append(self._statement())
        return Pipeline(operator, statements, negated)

    def _statement(self) -> Statement:
        token = self._peek()
        made = {"while": self._loop, "until": self._loop, "for": self._for, "if": self._if}.get(token)
        if made is None and token in {"(", "{"}:
            made = self._group
        if made is None:
            return self._command()
        statement = made()
        while redirect := self._redirect():
            statement.redirects.append(redirect)
        return statement

    def _group(self) -> Statement:
        subshell = self._accept("(")
        if not subshell:
            self._expect("{")
        closing = ")" if subshell else "}"
        body = self.script(frozenset({closing}))
        self._expect(closing)
        return Group(body, subshell)

    def _loop(self) -> Statement:
        negated = self._accept("until")
        if not negated:
            self._expect("while")
        condition = self.script(frozenset({"do"}))
        return Loop(condition, self._body(), negated)

    def _body(self) -> Script:
        self._expect("do")
        body = self.script(frozenset({"done"}))
        self._expect("done")
        return body

    def _for(self) -> Statement:
        self._expect("for")
        self._skip_blanks()
        found = _NAME.match(self._text, self._at)
        if found is None:
            raise self.unexpected()
        self._at = found.end()
        words: list[Word] = []
        if self._accept("in"):
            while word := self._word():
                words.append(word)
        else:
            words = [(Part("variable", "@", quoted=True),)]
        if not self._accept(";"):
            self._accept("\n")
        return For(found[0], words, self._body())

    def _if(self) -> Statement:
        self._expect("if")
        branches: list[tuple[Script | None, Script]] = []
        ends = frozenset({"elif", "else", "fi"})
        while True:
            condition = self.script(frozenset({"then"}))
            self._expect("then")
            branches.append((condition, self.script(ends)))
            if self._accept("else"):
                branches.append((None, self.script(frozenset({"fi"}))))
            elif self._accept("elif"):
                continue
            self._expect("fi")
            return If(branches)

    def _command(self) -> Statement:
        command = Command()
        while True:
            redirect = self._redirect()
            if redirect is not None:
                command.redirects.append(redirect)
                continue
            found = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=").match(self._text, self._at)
            if found is not None and not command.words:
                self._at = found.end()
                command.assignments.append((found[1], self._word(adjacent=True)))
                continue
            word = self._word()
            if not word:
                break
            command.words.append(word)
        if not (command.words or command.assignments or command.redirects):
            raise self.unexpected()
        return command

    def _redirect(self) -> Redirect | None:
        self._skip_blanks()
        found = _REDIRECT.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        target = self._word()
        if not target:
            raise self.unexpected()
        return Redirect(found[1] or ("0" if found[2].startswith("<") else "1"), found[2], target)

    # -- words

    def _word(self, *, adjacent: bool = False) -> Word:
        """The word that comes next; empty if none does. `adjacent`: it begins right here or not at all."""
        if not adjacent:
            self._skip_blanks()
        parts: list[Part] = []
        text = self._text
        while self._at < len(text) and text[self._at] not in " \t\r\n;&|()<>":
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
            elif char in "$`":
                parts.append(self._expansion(quoted=False))
            else:
                end = self._at
                while end < len(text) and text[end] not in " \t\r\n;&|()<>'\"\\$`":
                    end += 1
                parts.append(Part("literal", text[self._at : end]))
                self._at = end
        return tuple(parts)

    def _find(self, char: str, start: int) -> int:
        end = self._text.find(char, start)
        if end < 0:
            raise ShellSyntaxError("syntax error: unterminated quoted string")
        return end

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
            end = self._find("`", start + 1)
            self._at = end + 1
            return Part("command", text[start + 1 : end], quoted)
        if text.startswith("$((", start):
            end = self._balanced(start + 1)
            self._at = end + 1
            return Part("arithmetic", text[start + 3 : end - 1], quoted)
        if text.startswith("$(", start):
            end = self._balanced(start + 1)
            self._at = end + 1
            return Part("command", text[start + 2 : end], quoted)
        if text.startswith("${", start):
            end = self._find("}", start)
            self._at = end + 1
            return _braced(text[start + 2 : end], quoted)
        found = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9?#$@*!]").match(text, start + 1)
        if found is None:
            self._at = start + 1
            return Part("literal", "$", quoted)
        self._at = found.end()
        return Part("variable", found[0], quoted)

    def _balanced(self, start: int) -> int:
        """Where the parenthesis that opens at `start` closes."""
        depth, quote = 0, ""
        for at in range(start, len(self._text)):
            char = self._text[at]
            if quote:
                quote = "" if char == quote else quote
            elif char in "'\"":
                quote = char
            elif char == "(":
                depth += 1
            elif char == ")":
                depth -= 1
                if not depth:
                    return at
        raise ShellSyntaxError("syntax error: unterminated $(")


def _braced(text: str, quoted: bool) -> Part:
    if text.startswith("#") and len(text) > 1:
        return Part("variable", text[1:], quoted, "length")
    found = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*|[0-9?#$@*!])(:?[-=+?]|##?|%%?)?(.*)", text, re.DOTALL)
    if found is None or (found[3] and not found[2]):
        raise ShellSyntaxError(f"syntax error: bad substitution")
    return Part("variable", found[1], quoted, found[2] or "", found[3])
