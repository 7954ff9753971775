"""Parses shell scripts into trees: the part of POSIX sh that container commands and `kubectl exec` use."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from kubeskew.kubelet.containers.shell.words import Part, ShellSyntaxError, Word, WordReader

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REDIRECT = re.compile(r"(\d?|&)(<<<|<<-?|>>|>\||>&|<&|>|<)")
_FUNCTION = re.compile(
    r"(?:function[ \t]+)?([A-Za-z_][A-Za-z0-9_-]*)[ \t]*\(\)|function[ \t]+([A-Za-z_][A-Za-z0-9_-]*)"
)
_DELIMITER = re.compile(r"[ \t]*(?:'([^'\n]*)'|\"([^\"\n]*)\"|\\?([^\s;&|<>()]+))")
_RESERVED = frozenset({"then", "elif", "else", "fi", "do", "done", "}", "esac"})
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
__all__ = ["ShellSyntaxError", "parse"]


class Redirect(NamedTuple):
    """`descriptor` is 0, 1, 2 or `&` for both outputs; `operator` one of > >> < >& <& << <<<."""

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


@dataclass(slots=True)
class Case:
    """A `case`: each item has its patterns and its script."""

    word: Word
    items: list[tuple[list[Word], "Script"]]
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class Function:
    name: str
    body: "Statement"


Statement = Command | Loop | For | If | Group | Case | Function


@dataclass(slots=True)
class Pipeline:
    """A pipeline; `operator` is the text before it: empty, `;`, `&&` or `||`."""

    operator: str
    statements: list[Statement]
    negated: bool = False
    background: bool = False


@dataclass(slots=True)
class Script:
    pipelines: list[Pipeline]


def parse(text: str) -> Script:
    """Returns the script. Raises ShellSyntaxError."""
    parser = _Parser(text)
    script = parser.script(frozenset())
    if parser.rest():
        raise parser.unexpected()
    return script


def statement_text(statement: Statement) -> str:
    """Returns the text of a simple command for lists of processes; for other statements, their kind."""
    if not isinstance(statement, Command):
        return "sh"
    return " ".join("".join(part.text for part in word) for word in statement.words) or "sh"


class _Parser(WordReader):
    """Parses statements, by their first word."""

    def script(self, ends: frozenset[str]) -> Script:
        """Parses up to a word or operator of `ends`, which is left."""
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
            if self._text.startswith("&", self._at):  # |& sends both outputs
                self._at += 1
                both = Redirect("2", ">&", (Part("literal", "1"),))
                if not isinstance(statements[-1], Function):
                    statements[-1].redirects.append(both)
            self._skip_lines()
            statements.append(self._statement())
        return Pipeline(operator, statements, negated)

    def _statement(self) -> Statement:
        token = self._peek()
        made = {
            "while": self._loop, "until": self._loop, "for": self._for, "if": self._if, "case": self._case,
        }.get(token)  # fmt: skip
        if (
            self._text.startswith("((", self._at)
            and self._text[self._at + 2 : self._at + 3] != "("
            and (end := self._text.find("))", self._at)) > 0
        ):
            inner, self._at = self._text[self._at + 2 : end], end + 2
            return Command(words=[(Part("literal", "let"),), (Part("literal", inner, quoted=True),)])
        if made is None and token in {"(", "{"}:
            made = self._group
        if made is None and self._text.startswith("[[", self._at):
            return self._conditional()
        if made is None and (function := _FUNCTION.match(self._text, self._at)):
            self._at = function.end()
            self._skip_lines()
            return Function(function[1] or function[2], self._statement())
        if made is None:
            return self._command()
        statement = made()
        while redirect := self._redirect():
            if not isinstance(statement, Function):
                statement.redirects.append(redirect)
        return statement

    def _conditional(self) -> Statement:
        """Parses `[[ … ]]`, whose operators are words."""
        command = Command()
        while True:
            self._skip_lines()
            token = self._peek()
            if token in {"&&", "||", "(", ")"}:
                self._accept(token)
                command.words.append((Part("literal", token, quoted=True),))
                continue
            if self._text[self._at : self._at + 1] in {"<", ">"}:
                command.words.append((Part("literal", self._text[self._at], quoted=True),))
                self._at += 1
                continue
            word = self._pattern_word() if _is_operator(command.words, "=~") else self._word()
            if not word:
                raise self.unexpected()
            command.words.append(word)
            if word == (Part("literal", "]]"),):
                while redirect := self._redirect():
                    command.redirects.append(redirect)
                return command

    def _pattern_word(self) -> Word:
        """Returns the regular expression after `=~`, which may have parentheses and bars."""
        self._skip_blanks()
        if self._text[self._at] in "'\"$":
            return self._word()
        end = self._at
        while end < len(self._text) and self._text[end] not in " \t\n":
            end += 1
        text, self._at = self._text[self._at : end], end
        return (Part("literal", text, quoted=True),)

    def _case(self) -> Statement:
        self._expect("case")
        word = self._word()
        self._expect("in")
        items: list[tuple[list[Word], Script]] = []
        while True:
            self._skip_lines()
            if self._accept("esac"):
                return Case(word, items)
            self._accept("(")
            patterns = [self._word()]
            while self._accept("|"):
                patterns.append(self._word())
            if not all(patterns):
                raise self.unexpected()
            self._expect(")")
            body = self.script(frozenset({";;", "esac"}))
            items.append((patterns, body))
            self._skip_lines()
            if not self._accept(";;") and self._peek() != "esac":
                raise self.unexpected()

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
        if found[2] in {"<<", "<<-"}:
            return Redirect("0", "<<", self._document(strips=found[2] == "<<-"))
        target = self._word()
        if not target:
            raise self.unexpected()
        if found[2] == ">|":
            return Redirect(found[1] or "1", ">", target)
        return Redirect(found[1] or ("0" if found[2].startswith("<") else "1"), found[2], target)

    def _document(self, *, strips: bool) -> Word:
        """Returns the lines after this one, up to the delimiter; they are taken out of the script."""
        delimiter = _DELIMITER.match(self._text, self._at)
        if delimiter is None:
            raise self.unexpected()
        quoted = delimiter[0].lstrip()[0] in "'\"\\"
        end_word = next(group for group in delimiter.groups() if group is not None)
        self._at = delimiter.end()
        start = self._text.find("\n", self._at) + 1
        if not start:
            raise ShellSyntaxError("syntax error: unterminated here-document")
        lines, at = [], start
        while at < len(self._text):
            end = self._text.find("\n", at)
            end = len(self._text) if end < 0 else end
            line = self._text[at:end].lstrip("\t") if strips else self._text[at:end]
            at = end + 1
            if line == end_word:
                break
            lines.append(f"{line}\n")
        else:
            raise ShellSyntaxError("syntax error: unterminated here-document")
        self._text = self._text[:start] + self._text[at:]
        text = "".join(lines)
        return (Part("literal", text, quoted=True),) if quoted else _expandable(text)


def _expandable(text: str) -> Word:
    """Returns the text of a here-document whose variables and substitutions are replaced."""
    reader = WordReader("")
    reader.set_text(text.replace('"', "\0") + '"')
    return tuple(part._replace(text=part.text.replace("\0", '"')) for part in reader.double_quoted())


def _is_operator(words: list[Word], operator: str) -> bool:
    return bool(words) and words[-1] == (Part("literal", operator),)
