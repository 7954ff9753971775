"""Reports syntax errors of expressions, and recovers from them as ANTLR does.

Only texts with errors are read with it. The grammar is a network of states, from which the tokens that may
come next are computed. ANTLR's default strategy: a token too many is dropped, one that is missing made up,
else tokens are skipped up to one that some rule under way can go on with; nothing is reported again until a
token fits.

Sources: github.com/google/cel-go/parser/gen/CEL.g4; ANTLR 4's ATN, DefaultErrorStrategy, generated parsers
and adaptive prediction (as far as this grammar needs it); github.com/google/cel-go/parser/parser.go for
limits and wording.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache

from kubeskew.apimachinery.cel.errors import Issue
from kubeskew.apimachinery.cel.parser.lexer import EOF, Token

EPSILON = ""  # among expected tokens: the rule may end here

Tokens = frozenset[str]
_ATTEMPTS = 30  # recoveries
_LOOKAHEAD = 256  # most tokens skipped at once
_REPORTED = 100
_DEPTH = 250
_RESERVED_MEMBER = re.compile(r"no viable alternative at input '\.(true|false|null)'")
_NUMBERS = ("NUM_INT", "NUM_FLOAT")


class StateKind(Enum):
    """The kinds of states: each has its own recovery in ANTLR."""

    NONE = auto()
    BLOCK = auto()
    LOOP_ENTRY = auto()
    STAR_BACK = auto()
    PLUS_BACK = auto()


@dataclass(eq=False)
class State:
    """A place in a rule: reads one of `tokens`, or calls `rule`, or goes on to any of `targets` unread."""

    kind: StateKind = StateKind.NONE
    tokens: Tokens = frozenset()
    rule: str = ""
    targets: list["State"] = field(default_factory=list)
    stop: bool = False


class Element(ABC):
    """A part of a rule; `state` is where it begins once the rule is built."""

    state: State

    @abstractmethod
    def build(self, after: State) -> State:
        """Builds the part so that `after` follows it; its state is the one in which it begins."""


class Tok(Element):
    def __init__(self, *kinds: str) -> None:
        self.kinds = frozenset(kinds)

    def build(self, after: State) -> State:
        self.state = State(tokens=self.kinds, targets=[after])
        return self.state


class Ref(Element):
    """A call of a rule; `precedence` is the argument of a left-recursive one."""

    def __init__(self, rule: str, precedence: int = 0) -> None:
        self.rule = rule
        self.precedence = precedence

    def build(self, after: State) -> State:
        self.state = State(rule=self.rule, targets=[after])
        return self.state


class Seq(Element):
    def __init__(self, *parts: Element) -> None:
        self.parts = parts

    def build(self, after: State) -> State:
        for part in reversed(self.parts):
            after = part.build(after)
        self.state = after
        return after


class Alt(Element):
    """Alternatives; `choose` names the prediction that selects one."""

    def __init__(self, choose: str, *options: Element) -> None:
        self.choose = choose
        self.options = options

    def build(self, after: State) -> State:
        self.state = State(StateKind.BLOCK, targets=[option.build(after) for option in self.options])
        return self.state


class Opt(Element):
    def __init__(self, part: Element) -> None:
        self.part = part

    def build(self, after: State) -> State:
        self.state = State(StateKind.BLOCK, targets=[self.part.build(after), after])
        return self.state


class Star(Element):
    """A repetition; `choose` names the prediction whether to repeat. Without it the next token decides."""

    def __init__(self, part: Element, choose: str = "") -> None:
        self.part = part
        self.choose = choose

    def build(self, after: State) -> State:
        self.state = State(StateKind.LOOP_ENTRY)
        self.back = State(StateKind.STAR_BACK, targets=[self.state])
        self.state.targets = [self.part.build(self.back), after]
        return self.state


class Plus(Element):
    def __init__(self, part: Element, choose: str = "") -> None:
        self.part = part
        self.choose = choose

    def build(self, after: State) -> State:
        self.back = State(StateKind.PLUS_BACK)
        body = self.part.build(self.back)
        self.back.targets = [body, after]
        self.state = State(StateKind.BLOCK, targets=[body])
        return self.state


def _listed(item: str, *, pairs: bool = False) -> Element:
    """Items with commas between them; with `pairs` a colon and an expression follow each item."""

    def one() -> list[Element]:
        return [Ref(item), Tok(":"), Ref("expr")] if pairs else [Ref(item)]

    return Seq(*one(), Star(Seq(Tok(","), *one()), "another"))


_LITERAL = ("NUM_INT", "NUM_UINT", "NUM_FLOAT", "STRING", "BYTES", "true", "false", "null")

RULES: dict[str, Element] = {
    "start": Seq(Ref("expr"), Tok("EOF")),
    "expr": Seq(Ref("or"), Opt(Seq(Tok("?"), Ref("or"), Tok(":"), Ref("expr")))),
    "or": Seq(Ref("and"), Star(Seq(Tok("||"), Ref("and")))),
    "and": Seq(Ref("relation"), Star(Seq(Tok("&&"), Ref("relation")))),
    "relation": Seq(
        Ref("calc"),
        Star(Seq(Tok("<", "<=", ">=", ">", "==", "!=", "in"), Ref("relation", 2)), "relation"),
    ),
    "calc": Seq(
        Ref("unary"),
        Star(
            Alt(
                "calc",
                Seq(Tok("*", "/", "%"), Ref("calc", 3)),
                Seq(Tok("+", "-"), Ref("calc", 2)),
            ),
            "calculation",
        ),
    ),
    "unary": Alt(
        "unary",
        Ref("member"),
        Seq(Plus(Tok("!")), Ref("member")),
        Seq(Plus(Tok("-"), "minus"), Ref("member")),
    ),
    "member": Seq(
        Ref("primary"),
        Star(
            Alt(
                "member",
                Seq(Tok("."), Opt(Tok("?")), Ref("escapeIdent")),
                Seq(Tok("."), Tok("IDENTIFIER"), Tok("("), Opt(Ref("exprList")), Tok(")")),
                Seq(Tok("["), Opt(Tok("?")), Ref("expr"), Tok("]")),
            ),
            "suffix",
        ),
    ),
    "primary": Alt(
        "primary",
        Seq(Opt(Tok(".")), Tok("IDENTIFIER")),
        Seq(Opt(Tok(".")), Tok("IDENTIFIER"), Tok("("), Opt(Ref("exprList")), Tok(")")),
        Seq(Tok("("), Ref("expr"), Tok(")")),
        Seq(Tok("["), Opt(Ref("listInit")), Opt(Tok(",")), Tok("]")),
        Seq(Tok("{"), Opt(Ref("mapInit")), Opt(Tok(",")), Tok("}")),
        Seq(
            Opt(Tok(".")),
            Tok("IDENTIFIER"),
            Star(Seq(Tok("."), Tok("IDENTIFIER"))),
            Tok("{"),
            Opt(Ref("fieldInit")),
            Opt(Tok(",")),
            Tok("}"),
        ),
        Ref("literal"),
    ),
    "exprList": Seq(Ref("expr"), Star(Seq(Tok(","), Ref("expr")))),
    "listInit": _listed("optExpr"),
    "fieldInit": _listed("optField", pairs=True),
    "optField": Seq(Opt(Tok("?")), Ref("escapeIdent")),
    "mapInit": _listed("optExpr", pairs=True),
    "escapeIdent": Alt("token", Tok("IDENTIFIER"), Tok("ESC_IDENTIFIER")),
    "optExpr": Seq(Opt(Tok("?")), Ref("expr")),
    "literal": Alt(
        "literal",
        Seq(Opt(Tok("-")), Tok("NUM_INT")),
        Tok("NUM_UINT"),
        Seq(Opt(Tok("-")), Tok("NUM_FLOAT")),
        *(Tok(kind) for kind in _LITERAL[3:]),
    ),
}
STOP = State(stop=True)
ENTRY = {name: element.build(STOP) for name, element in RULES.items()}


@cache
def next_tokens(state: State) -> Tokens:
    """Looks no further than the rule; EPSILON is among the tokens if the rule may end."""
    found: set[str] = set()
    _collect(state, found, set())
    return frozenset(found)


def _collect(state: State, found: set[str], seen: set[State]) -> None:
    if state in seen:
        return
    seen.add(state)
    if state.stop:
        found.add(EPSILON)
    elif state.tokens:
        found |= state.tokens
    elif state.rule:
        inner = next_tokens(ENTRY[state.rule])
        found |= inner - {EPSILON}
        if EPSILON in inner:
            _collect(state.targets[0], found, seen)
    else:
        for target in state.targets:
            _collect(target, found, seen)


_ORDER = (
    "EOF", "==", "!=", "in", "<", "<=", ">=", ">", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-",
    "!", "?", ":", "+", "*", "/", "%", "true", "false", "null", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING",
    "BYTES", "IDENTIFIER", "ESC_IDENTIFIER",
)  # fmt: skip


def shown(tokens: Iterable[str]) -> str:
    """Lists expected tokens in ANTLR's order and form."""
    expected = set(tokens) - {EPSILON}
    names = [_shown(kind) for kind in _ORDER if kind in expected]
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"


def _shown(kind: str) -> str:
    if kind == "EOF":
        return "<EOF>"
    return kind if kind[0].isupper() else f"'{kind}'"


class _MismatchError(Exception):
    """The current token fits nowhere; `text` is the error."""

    def __init__(self, text: str, token: Token) -> None:
        super().__init__(text)
        self.text = text
        self.token = token


class _HaltError(Exception):
    """The limit of errors is reached: nothing more is reported."""


def syntax_issues(tokens: list[Token], source: str) -> list[Issue]:
    """Called for texts that do not parse."""
    recoverer = _Recoverer(tokens, source)
    with suppress(_HaltError):
        recoverer.rule("start", 0, None)
    return recoverer.issues


class _Recoverer:
    def __init__(self, tokens: list[Token], source: str) -> None:
        self._tokens = tokens
        self._source = source
        self._place = 0
        self._callers: list[State] = []  # where to go on behind each rule under way
        self._depth: dict[str, int] = {}
        self._state = State()
        self._recovering = False
        self._last_place = -1
        self._last_states: set[State] = set()
        self._attempts = 0
        self.issues: list[Issue] = []

    # The tokens

    def _token(self, ahead: int = 0) -> Token:
        return self._tokens[min(self._place + ahead, len(self._tokens) - 1)]

    def _kind(self, ahead: int = 0) -> str:
        return self._token(ahead).kind

    def _consume(self) -> None:
        if self._place < len(self._tokens) - 1:
            self._place += 1

    # Reporting

    def _notify(self, token: Token, message: str) -> None:
        message = _RESERVED_MEMBER.sub(r"mismatched input '\1' expecting IDENTIFIER", message)
        if len(self.issues) >= _REPORTED:
            self.issues.append(Issue(token.start, f"Syntax error: More than {_REPORTED} syntax errors"))
            raise _HaltError
        self.issues.append(Issue(token.start, f"Syntax error: {message}"))

    def _report(self, token: Token, message: str) -> None:
        if not self._recovering:
            self._recovering = True
            self._notify(token, message)

    def _expected(self) -> Tokens:
        """Looks also behind the rules that may end here."""
        found = next_tokens(self._state)
        expected = set(found)
        for caller in reversed(self._callers):
            if EPSILON not in found:
                break
            found = next_tokens(caller)
            expected |= found
        if EPSILON in found:
            expected.add(EOF)
        return frozenset(expected - {EPSILON})

    # Recovery

    def _attempt(self) -> None:
        if self._attempts == _ATTEMPTS:
            self._notify(self._token(), f"error recovery attempt limit exceeded: {_ATTEMPTS}")
            raise _HaltError
        self._attempts += 1

    def _drop_token(self) -> bool:
        """Drops the current token if the next one fits instead; else nothing happens, and False is
        returned."""
        expected = self._expected()
        if self._kind(1) not in expected or self._kind() == EOF:
            return False
        self._unwanted(expected)
        self._consume()
        self._recovering = False
        return True

    def _unwanted(self, expected: Tokens) -> None:
        token = self._token()
        self._report(token, f"extraneous input {_quoted(token.text)} expecting {shown(expected)}")

    def _mismatch(self) -> _MismatchError:
        token = self._token()
        text = f"mismatched input {_quoted(token.text)} expecting {shown(self._expected())}"
        return _MismatchError(text, token)

    def _recovery_set(self) -> Tokens:
        found: set[str] = set()
        for caller in self._callers:
            found |= next_tokens(caller)
        return frozenset(found - {EPSILON})

    def _skip_to(self, wanted: Tokens, most: int | None = None) -> None:
        skipped = 0
        while self._kind() != EOF and self._kind() not in wanted:
            if most is not None and skipped >= most:
                message = f"error recovery token lookahead limit exceeded: {most}"
                self.issues.append(Issue(-1, message))
                raise _HaltError
            skipped += 1
            self._consume()

    def _recover(self) -> None:
        self._attempt()
        if self._last_place == self._place and self._state in self._last_states:
            self._consume()
        self._last_place = self._place
        self._last_states.add(self._state)
        self._skip_to(self._recovery_set(), _LOOKAHEAD)

    def _synchronise(self, state: State) -> None:
        """Makes the current token one that fits at a decision, or raises _MismatchError."""
        self._state = state
        expected = next_tokens(state)
        if self._recovering or self._kind() in expected or EPSILON in expected:
            return
        if state.kind in (StateKind.BLOCK, StateKind.LOOP_ENTRY):
            if not self._drop_token():
                raise self._mismatch()
        else:
            wanted = self._expected()
            self._unwanted(wanted)
            self._skip_to(wanted | self._recovery_set())

    def _match(self, element: Tok) -> None:
        self._state = element.state
        if self._kind() in element.kinds:
            self._recovering = False
            self._consume()
            return
        self._attempt()
        if self._drop_token():
            self._consume()
            return
        self._state = element.state.targets[0]
        behind = self._expected()
        self._state = element.state
        if self._kind() not in behind:
            raise self._mismatch()
        token = self._token()
        self._report(token, f"missing {shown(self._expected())} at {_quoted(token.text)}")

    # Rules

    def rule(self, name: str, precedence: int, caller: State | None) -> None:
        """Reads a rule; errors within are reported, and tokens skipped as far as needed."""
        before, invoking = self._depth.get(name, 0), self._state
        self._enter(name)
        if caller is not None:
            self._callers.append(caller)
        try:
            self._read(RULES[name], name, precedence)
        except _MismatchError as error:
            self._report(error.token, error.text)
            self._recover()
        if caller is not None:
            self._callers.pop()
        self._depth[name] = before
        self._state = invoking

    def _enter(self, name: str) -> None:
        self._depth[name] = self._depth.get(name, 0) + 1
        if self._depth[name] > _DEPTH:
            self.issues.append(Issue(-1, f"expression recursion limit exceeded: {_DEPTH}"))
            raise _HaltError

    def _read(self, element: Element, rule: str, precedence: int) -> None:
        match element:
            case Tok():
                self._match(element)
            case Ref(rule=name, precedence=level):
                self._state = element.state
                self.rule(name, level, element.state.targets[0])
            case Seq(parts=parts):
                for part in parts:
                    self._read(part, rule, precedence)
            case Opt(part=part):
                self._synchronise(element.state)
                if self._kind() in next_tokens(part.state):
                    self._read(part, rule, precedence)
            case Alt(options=options):
                self._synchronise(element.state)
                self._read(options[self._choice(element)], rule, precedence)
            case Star() | Plus():
                self._loop(element, rule, precedence)

    def _loop(self, element: Star | Plus, rule: str, precedence: int) -> None:
        self._synchronise(element.state)
        if isinstance(element, Plus):
            self._read(element.part, rule, precedence)
            self._synchronise(element.back)
        while self._goes_round(element, precedence) if isinstance(element, Star) else self._repeats(element):
            if element.choose in ("relation", "calculation", "suffix"):  # starts a left-recursive rule again
                self._enter(rule)
            self._read(element.part, rule, precedence)
            self._synchronise(element.back)

    # Predictions

    def _no_alternative(self, ahead: int) -> _MismatchError:
        """No alternative fits the tokens from the current one to the one `ahead`."""
        first, last = self._token(), self._token(ahead)
        text = "<EOF>" if first.kind == EOF else self._text(ahead)
        return _MismatchError(f"no viable alternative at input {_quoted(text)}", last)

    def _text(self, ahead: int) -> str:
        parts: list[str] = []
        for number in range(ahead + 1):
            token = self._token(number)
            if number:
                parts.append(token.before)
            parts.append("" if token.kind == EOF else token.text)
        return "".join(parts)

    def _goes_round(self, element: Star, precedence: int) -> bool:
        kind = self._kind()
        if element.choose == "relation":
            return kind in next_tokens(element.part.state) and precedence <= 1
        if element.choose == "calculation":
            return (kind in ("*", "/", "%") and precedence <= 2) or (kind in ("+", "-") and precedence <= 1)
        if element.choose == "another":
            item = element.part.state.targets[0]
            return kind == "," and self._kind(1) in next_tokens(item)
        return kind in next_tokens(element.part.state)

    def _repeats(self, element: Plus) -> bool:
        if self._kind() not in next_tokens(element.part.state):
            return False
        if element.choose == "minus" and self._kind(1) not in next_tokens(element.back) | set(_NUMBERS):
            raise self._no_alternative(1)
        return True

    def _choice(self, element: Alt) -> int:
        chosen = {
            "unary": self._choose_unary,
            "member": self._choose_member,
            "primary": self._choose_primary,
            "literal": self._choose_literal,
        }.get(element.choose)
        if chosen is not None and self._kind() in next_tokens(element.state):
            return chosen()
        for place, option in enumerate(element.options):
            if self._kind() in next_tokens(option.state):
                return place
        raise self._no_alternative(0)

    def _choose_unary(self) -> int:
        kind, following = self._kind(), self._kind(1)
        if kind == "!":
            return 1
        if kind != "-" or following in _NUMBERS:
            return 0
        if following != "-" and following not in next_tokens(ENTRY["member"]):
            raise self._no_alternative(1)
        return 2

    def _choose_member(self) -> int:
        if self._kind() == "[":
            return 2
        following = self._kind(1)
        if following == "IDENTIFIER":
            return 1 if self._kind(2) == "(" else 0
        if following not in ("?", "ESC_IDENTIFIER"):
            raise self._no_alternative(1)
        return 0

    def _choose_primary(self) -> int:
        kind = self._kind()
        if kind in ("(", "[", "{"):
            return {"(": 2, "[": 3, "{": 4}[kind]
        if kind not in (".", "IDENTIFIER"):
            return 6
        ahead = 1 if kind == "." else 0
        if self._kind(ahead) != "IDENTIFIER":
            raise self._no_alternative(ahead)
        if self._kind(ahead + 1) == "(":
            return 1
        while self._kind(ahead + 1) == "." and self._kind(ahead + 2) == "IDENTIFIER":
            ahead += 2
        return 5 if self._kind(ahead + 1) == "{" else 0

    def _choose_literal(self) -> int:
        signed = self._kind() == "-"
        kind = self._kind(1) if signed else self._kind()
        if signed and kind not in _NUMBERS:
            raise self._no_alternative(1)
        order = ("NUM_INT", "NUM_UINT", "NUM_FLOAT", "STRING", "BYTES", "true", "false", "null")
        return order.index(kind)


def _quoted(text: str) -> str:
    escaped = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return f"'{escaped}'"
