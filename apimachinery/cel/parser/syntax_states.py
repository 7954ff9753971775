"""Holds the grammar as a network of states, from which the tokens that may come next are computed.

Only texts with errors are read with it: `syntax` parses, this module says like ANTLR what was expected where.

Source: github.com/google/cel-go/parser/gen/CEL.g4; how rules become states: ANTLR 4's ATN.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache

EPSILON = ""  # among expected tokens: the rule may end here

Tokens = frozenset[str]


class StateKind(Enum):
    """Names the kinds of states: how ANTLR recovers in one depends on what is decided there."""

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
        """Builds the part so that `after` follows it, and returns the state in which it begins."""


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
    """Returns items with commas between them; with `pairs` a colon and an expression follow each item."""

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
    """Returns the tokens that may be read from here within the rule; EPSILON is among them if the rule may
    end."""
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
    """Returns expected tokens as ANTLR lists them."""
    expected = set(tokens) - {EPSILON}
    names = [_shown(kind) for kind in _ORDER if kind in expected]
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"


def _shown(kind: str) -> str:
    if kind == "EOF":
        return "<EOF>"
    return kind if kind[0].isupper() else f"'{kind}'"
