"""Shell scripts as trees: the part of POSIX sh that container commands and `kubectl exec` are made of."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from kubelet.shell.words import Part, ShellSyntaxError, Word, WordReader

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REDIRECT = re.compile(r"(\d?|&)(>>|>&|<&|>|<)")
_RESERVED = frozenset({"then", "elif", "else", "fi", "do", "done", "}", "esac"})
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
__all__ = ["ShellSyntaxError", "parse"]


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


class _Parser(WordReader):
    """Statements, by what their first word is."""

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
            found = _ASSIGNMENT.match(self._text, self._at)
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
