"""Reads the tags of declarative validation (`+k8s:maxItems=8`) from the markers of a Go type or field.

The grammar is that of gengo's codetags (parser.go, scanner.go): a name, arguments in parentheses, and a
value, which is a number, a text or another tag. Tags that upstream's validation-gen does not know are no
rules. A rule is a list, as the catalogue keeps it:

    ["optional"]                          +k8s:optional
    ["maxItems", 8]                       +k8s:maxItems=8
    ["eachVal", ["maxLength", 5]]         +k8s:eachVal=+k8s:maxLength=5
    ["ifEnabled", "Gate", ["required"]]   +k8s:ifEnabled(Gate)=+k8s:required
    ["item", {"type": "A"}, ["immutable"]]   +k8s:item(type: "A")=+k8s:immutable
    ["alpha", ["maxItems", 8]]            +k8s:alpha(since: "1.36")=+k8s:maxItems=8

Sources: vendor/k8s.io/gengo/v2/codetags and staging/src/k8s.io/code-generator/cmd/validation-gen/validators,
1.33 to 1.36; the markers of k8s.io/api, 1.37.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Rule = list[Any]

_PREFIX = "k8s:"
_LEVELS = frozenset({"alpha", "beta"})
# Tags that became others, with the same meaning.
_RENAMED = {
    "ifOptionEnabled": "ifEnabled",
    "ifOptionDisabled": "ifDisabled",
    "modeDiscriminator": "discriminator",
    "ifMode": "member",
}
_NESTING = _LEVELS | {"eachKey", "eachVal", "ifDisabled", "ifEnabled", "item", "member", "subfield"}
TAGS = _NESTING | {
    "customUnique", "dependentForbidden", "dependentRequired", "discriminator", "enum", "enumExclude",
    "forbidden", "format", "immutable", "listMapKey", "listType", "maxBytes", "maxItems", "maxLength",
    "maximum", "minItems", "minLength", "minimum", "monotonic", "neq", "opaqueType", "optional", "required",
    "unionDiscriminator", "unionMember", "unique", "update", "zeroOrOneOfMember",
}  # fmt: skip
_COUNTS = frozenset({"maxBytes", "maxItems", "maxLength", "minItems", "minLength"})
_NUMBERS = _COUNTS | {"maximum", "minimum"}
# Tags whose value, or only argument, is one of these words; any word where there are none.
_WORDS: dict[str, frozenset[str]] = {
    "dependentForbidden": frozenset(),
    "dependentRequired": frozenset(),
    "format": frozenset(
        {
            "k8s-extended-resource-name", "k8s-label-key", "k8s-label-value", "k8s-long-name",
            "k8s-long-name-caseless", "k8s-path-segment-name", "k8s-prefixed-label-key",
            "k8s-resource-fully-qualified-name", "k8s-resource-pool-name", "k8s-short-name", "k8s-uuid",
        }
    ),
    "listMapKey": frozenset(),
    "listType": frozenset({"atomic", "map", "set"}),
    "unique": frozenset({"map", "set"}),
    "update": frozenset({"NoAddItem", "NoModify", "NoRemoveItem", "NoSet", "NoUnset"}),
}  # fmt: skip
# Their checks are functions of the tree, or of a test.
UNFOLLOWED = frozenset({"customValidation", "validateError", "validateFalse", "validateTrue"})
_LATE = frozenset({"alpha", "beta", "eachVal", "item"})  # these see what the others have gathered

_NAME = re.compile(r"[^\W\d][\w.:-]*")
_WORD = re.compile(r"[^\W\d][\w.-]*")
_NUMBER = re.compile(r"[+-]?\d[xob]?[0-9a-fA-F]*")
_TEXT = re.compile(r'"(?:[^"\\]|\\["\\])*"|`(?:[^`\\]|\\[`\\])*`')
_SPACE = re.compile(r"\s*")
_COMMENT = re.compile(r"\s*#.*", re.DOTALL)


class TagError(ValueError):
    """The text is no tag, or one that its place does not take."""


@dataclass(slots=True)
class Tag:
    """`argument` is the only one without a name; `value` is a scalar or None."""

    name: str
    argument: Any = None
    named: dict[str, Any] = field(default_factory=dict)
    value: Any = None
    inner: "Tag | None" = None


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def next(self) -> str:
        """The next character; empty at the end."""
        return self.text[self.at : self.at + 1]

    def take(self, pattern: re.Pattern[str]) -> str:
        """Empty if the pattern does not match here."""
        found = pattern.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found[0]

    def skip(self, character: str) -> bool:
        if self.next() != character:
            return False
        self.at += 1
        return True

    def refuse(self) -> TagError:
        if self.at >= len(self.text):
            return TagError("unexpected end of input")
        return TagError(f"unexpected character {self.next()!r} at position {self.at}")


def parse_tag(text: str) -> Tag:
    """Reads one tag without its plus sign. Raises TagError."""
    scanner = _Scanner(text.strip())
    tag = _tag(scanner)
    scanner.take(_COMMENT)
    if scanner.next():
        raise scanner.refuse()
    return tag


def _tag(scanner: _Scanner) -> Tag:
    name = scanner.take(_NAME)
    if not name:
        raise scanner.refuse()
    tag = Tag(name)
    if scanner.skip("("):
        _arguments(scanner, tag)
    if scanner.skip("="):
        if scanner.next() == "+" and _NAME.match(scanner.text, scanner.at + 1):
            scanner.at += 1
            tag.inner = _tag(scanner)
        else:
            tag.value = _scalar(scanner)
    return tag


def _arguments(scanner: _Scanner, tag: Tag) -> None:
    positions = 0
    while not scanner.skip(")"):
        named = re.compile(r"([^\W\d][\w.-]*):\s*").match(scanner.text, scanner.at)
        if named is not None:
            scanner.at = named.end()
            tag.named[named[1]] = _scalar(scanner)
        else:
            tag.argument = _scalar(scanner)
            positions += 1
        if scanner.skip(","):
            scanner.take(_SPACE)
        elif scanner.next() != ")":
            raise scanner.refuse()
    if positions and tag.named:
        raise TagError("can't mix named and positional arguments")
    if positions > 1:
        raise TagError("multiple arguments must use 'name: value' syntax")


def _scalar(scanner: _Scanner) -> Any:
    text = scanner.take(_TEXT)
    if text:
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    text = scanner.take(_NUMBER)
    if text:
        try:
            return int(text, 0)
        except ValueError as error:
            raise TagError(f"invalid number {text!r}") from error
    text = scanner.take(_WORD)
    if not text:
        raise scanner.refuse()
    return {"true": True, "false": False}.get(text, text)


def rules_of(markers: Iterable[str]) -> list[Rule]:
    """The rules among the markers, in the order in which validation-gen takes them. Raises TagError."""
    found = []
    for marker in markers:
        text = marker.strip().removeprefix("+")
        name = _NAME.match(text)
        if name is None or not name[0].startswith(_PREFIX):
            continue
        plain = name[0].removeprefix(_PREFIX)
        if _RENAMED.get(plain, plain) in TAGS:
            rule = _rule(parse_tag(text))
            if rule is not None:
                found.append((plain in _LATE, plain, rule))
    found.sort(key=lambda entry: entry[:2])
    return [rule for _, _, rule in found]


def unfollowed(markers: Iterable[str]) -> list[str]:
    """The markers whose check is code, which nobody takes over."""
    names = "|".join(sorted(UNFOLLOWED))
    return [text for text in markers if re.search(rf"\bk8s:({names})\b", text)]


def _rule(tag: Tag) -> Rule | None:
    """None for a tag whose innermost one is not followed."""
    name = tag.name.removeprefix(_PREFIX)
    if name in UNFOLLOWED:
        return None
    name = _RENAMED.get(name, name)
    if not tag.name.startswith(_PREFIX) or name not in TAGS:
        raise TagError(f"unknown tag {tag.name!r}")
    rule: Rule = [name]
    if name in _NESTING:
        if tag.inner is None:
            raise TagError(f"{tag.name}: requires a validation tag as its value payload")
        inner = _rule(tag.inner)
        if inner is None:
            return None
        if name not in _LEVELS | {"eachKey", "eachVal"}:
            rule += _argument(tag)
            if len(rule) == 1 or (isinstance(rule[1], dict) != (name == "item") and name != "member"):
                raise TagError(f"{tag.name}: missing or wrong argument")
        return [*rule, inner]
    if tag.inner is not None:
        raise TagError(f"{tag.name}: takes no validation tag")
    rule += _argument(tag)
    if tag.value is not None:
        rule.append(tag.value)
    _check_value(tag, rule)
    return rule


def _check_value(tag: Tag, rule: Rule) -> None:
    """Raises TagError for a value that upstream's generator would refuse."""
    name, *values = rule
    if name in _NUMBERS:
        if len(values) != 1 or values[0].__class__ is not int:
            raise TagError(f"{tag.name}: failed to parse tag payload as int")
        if name in _COUNTS and values[0] < 0:
            raise TagError(f"{tag.name}: must be greater than or equal to zero")
    elif name in _WORDS:
        known = _WORDS[name]
        if len(values) != 1 or not isinstance(values[0], str) or (known and values[0] not in known):
            raise TagError(f"{tag.name}: unknown value {', '.join(map(str, values))!r}")
    elif name == "neq" and len(values) != 1:
        raise TagError(f"{tag.name}: missing required payload")


def _argument(tag: Tag) -> list[Any]:
    if tag.named:
        return [tag.named]
    return [] if tag.argument is None else [tag.argument]
