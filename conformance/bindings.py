"""Expressions in scenarios: `($name.field)` in keys and values, JMESPath as in Chainsaw.

A string that is wholly one parenthesised expression becomes the expression's value, of any type; `$name` is a
binding. In assertions, a key in parentheses is evaluated against what was found.

Of the functions that Chainsaw adds to JMESPath's, those are here that scenarios are likely to use. Functions
that ask a cluster (`x_k8s_get`), or the time and chance, are not among them: an assertion is of the object
found, and has the same result each time.
"""

import base64
import functools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import yaml
from jmespath import Options
from jmespath.exceptions import JMESPathError, JMESPathTypeError, LexerError
from jmespath.functions import Functions, signature
from jmespath.parser import ParsedResult, Parser

from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.conformance.chainsaw import expression, is_cel, parse_key, unescaped
from kubeskew.conformance.errors import ScenarioError, UnboundError, UnfitValueError, UnknownFieldError

_STRING: Any = {"types": ["string"]}
_NUMBER_OR_STRING: Any = {"types": ["string", "number"]}
_NUMBER: Any = {"types": ["number"]}
_LIST: Any = {"types": ["array"]}
_SHOWN = 200  # characters of what cannot be parsed
_COLLECTION: Any = {"types": ["object", "array"]}
# A quoted piece of JMESPath, in which a dollar is a dollar; or a binding with the path behind it.
_PIECE = re.compile(
    r"""'(?:\\.|[^'\\])*' | `(?:\\.|[^`\\])*` | "(?:\\.|[^"\\])*"
    | \$(?P<name>[A-Za-z_]\w*) (?P<path>(?: \.[A-Za-z_]\w*(?![\w]|\s*\() | \[-?\d+\] )*)""",
    re.VERBOSE | re.DOTALL,
)
_ARITHMETIC = frozenset("+-*/%")  # of a newer JMESPath than the library's
_KEPT = 1024  # expressions; those of one file are a few hundred
_PATH_PART = re.compile(r"\.(?P<field>\w+)|\[(?P<position>-?\d+)\]")


class ChainsawFunctions(Functions):
    """jmespath finds the functions by their names. Source: kyverno-json's and Chainsaw's function lists."""

    @signature(_COLLECTION, _NUMBER_OR_STRING)
    def _func_lookup(self, collection: Any, key: Any) -> Any:
        """A key or position that is not there gives null."""
        try:
            return collection[key]
        except (LookupError, TypeError):
            return None

    @signature(_STRING, _NUMBER_OR_STRING)
    def _func_regex_match(self, pattern: str, text: Any) -> bool:
        return re.search(pattern, str(text)) is not None

    @signature(_STRING, _STRING)
    def _func_split(self, text: str, separator: str) -> list[str]:
        return text.split(separator)

    @signature(_STRING, _STRING, _STRING)
    def _func_replace_all(self, text: str, old: str, new: str) -> str:
        return text.replace(old, new)

    @signature(_STRING, _STRING)
    def _func_trim(self, text: str, characters: str) -> str:
        return text.strip(characters)

    @signature(_STRING)
    def _func_to_lower(self, text: str) -> str:
        return text.lower()

    @signature(_STRING)
    def _func_to_upper(self, text: str) -> str:
        return text.upper()

    _func_lower, _func_upper = _func_to_lower, _func_to_upper  # Chainsaw has these, too, by both names

    @signature(_STRING)
    def _func_base64_decode(self, text: str) -> str:
        return base64.b64decode(text).decode()

    @signature(_STRING)
    def _func_base64_encode(self, text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    @signature(_STRING)
    def _func_parse_json(self, text: str) -> Any:
        return _parsed_value(json.loads, text)

    _func_json_parse = _func_parse_json  # Chainsaw has it by both names

    @signature(_STRING)
    def _func_parse_yaml(self, text: str) -> Any:
        return _parsed_value(yaml.safe_load, text)

    @signature(_STRING)
    def _func_trim_space(self, text: str) -> str:
        return text.strip()

    @signature(_STRING, _STRING)
    def _func_trim_prefix(self, text: str, prefix: str) -> str:
        return text.removeprefix(prefix)

    @signature(_STRING, _STRING)
    def _func_concat(self, text: str, other: str) -> str:
        return text + other

    @signature(_STRING, _STRING)
    def _func_equal_fold(self, text: str, other: str) -> bool:
        return text.casefold() == other.casefold()

    @signature(_STRING, _NUMBER)
    def _func_truncate(self, text: str, length: float) -> str:
        return text[: max(int(length), 0)]

    @signature(_STRING, _STRING)
    def _func_wildcard(self, pattern: str, text: str) -> bool:
        return _like(pattern, text)

    @signature(_STRING, _NUMBER_OR_STRING)
    def _func_pattern_match(self, pattern: str, text: Any) -> bool:
        return _like(pattern, str(text))

    @signature(_STRING, _NUMBER_OR_STRING, _NUMBER_OR_STRING)
    def _func_regex_replace_all_literal(self, pattern: str, text: Any, instead: Any) -> str:
        return re.sub(pattern, lambda _: str(instead), str(text))

    @signature({"types": ["object"]}, {"types": ["object"]})
    def _func_label_match(self, wanted: Any, labels: Any) -> bool:
        return all(key in labels and labels[key] == value for key, value in wanted.items())

    @signature(_STRING)
    def _func_to_boolean(self, text: str) -> Any:
        return {"true": True, "false": False}.get(text.lower())

    @signature({"types": []})
    def _func_as_string(self, value: Any) -> Any:
        return value if isinstance(value, str) else None

    @signature(_LIST, _NUMBER)
    def _func_at(self, items: Any, place: float) -> Any:
        return self._func_lookup(items, int(place))

    @signature(_LIST, _LIST)
    def _func_object_from_lists(self, keys: Any, values: Any) -> Any:
        return {key: values[at] if at < len(values) else None for at, key in enumerate(keys)}

    @signature(_STRING, _STRING)
    def _func_find_first(self, text: str, part: str) -> Any:
        return found if (found := text.find(part)) >= 0 else None

    @signature(_STRING, _STRING)
    def _func_find_last(self, text: str, part: str) -> Any:
        return found if (found := text.rfind(part)) >= 0 else None

    @signature(_LIST)
    def _func_from_items(self, items: Any) -> Any:
        return dict(items)


def _parsed_value(parse: Any, text: str) -> Any:
    """Raises UnfitValueError for a text that the parser cannot read."""
    try:
        return parse(text)
    except (ValueError, yaml.YAMLError) as error:
        raise UnfitValueError(f"cannot be parsed: {error}: {text[:_SHOWN]!r}") from error


def _like(pattern: str, text: str) -> bool:
    """Only `*` and `?` are wildcards; a bracket stands for itself."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))


def known_functions() -> Collection[str]:
    return list(ChainsawFunctions.FUNCTION_TABLE)


OPTIONS = Options(custom_functions=ChainsawFunctions())


def evaluate(text: str, bindings: Mapping[str, Any], found: Any = None) -> Any:
    """`$name` is a binding, anything else is of `found`.

    Without `found` it is an empty object: of null, JMESPath makes a list of several values null. Raises
    ScenarioError for an expression that cannot be read, UnboundError for a name that nothing is bound to, and
    UnknownFieldError for a field that a binding lacks.
    """

    def of_binding(piece: re.Match[str]) -> Any:
        name = piece["name"]
        if name not in bindings:
            raise UnboundError(
                f"({text}): nothing is bound to ${name}; bound are {', '.join(bindings)}"
                + did_you_mean(name, bindings, "$"),
                name,
            )
        return _of_path(text, name, bindings[name], piece["path"])

    # bindings become literals of the expression; other names refer to the object found
    def bound(piece: re.Match[str]) -> str:
        if piece["name"] is None:
            return piece[0]
        of_binding(piece)
        return _literal(bindings[piece["name"]]) + piece["path"]

    if (whole := _PIECE.fullmatch(text)) and whole["name"]:  # most expressions: JMESPath is not needed
        value = of_binding(whole)
        return value if isinstance(value, str | int | float | None) else json.loads(json.dumps(value))

    try:
        return _parsed_expression(_PIECE.sub(bound, text)).search({} if found is None else found, OPTIONS)
    except JMESPathTypeError as error:
        raise UnfitValueError(f"({text}): {error}") from error
    except JMESPathError as error:
        raise ScenarioError(f"({text}): {_first_line(error)}") from error


@functools.lru_cache(_KEPT)
def _parsed_expression(text: str) -> ParsedResult:
    """Keeps 1,024 expressions; JMESPath's own cache drops them after 128."""
    return Parser().parse(text)


def _of_path(text: str, name: str, value: Any, path: str) -> Any:
    """Raises UnknownFieldError for a field that is not there, where JMESPath would give null."""
    where = f"${name}"
    for part in _PATH_PART.finditer(path):
        if part["field"] is None:
            if not isinstance(value, list) or not -len(value) <= int(part["position"]) < len(value):
                return None  # a position that a list lacks is null, as in JMESPath
            value = value[int(part["position"])]
        elif not isinstance(value, Mapping):
            raise UnknownFieldError(f"({text}): {where} is {json.dumps(value)}: it has no fields")
        elif part["field"] not in value:
            known = ", ".join(map(str, value)) or "none"
            hint = did_you_mean(part["field"], value)
            raise UnknownFieldError(f"({text}): {where} has no field {part['field']}; it has {known}{hint}")
        else:
            value = value[part["field"]]
        where += part[0]
    return value


def _first_line(error: JMESPathError) -> str:
    """Leaves out the drawing of the place that jmespath adds below its message."""
    if isinstance(error, LexerError) and error.token_value in _ARITHMETIC:
        return f"Chainsaw's arithmetic ({error.token_value}) is not supported here; there is sum([…])"
    return str(error).partition("\n")[0].rstrip(": ")


def _literal(value: Any) -> str:
    return "`" + json.dumps(value).replace("`", "\\`") + "`"


def expressions_in(value: Any) -> list[str]:
    """Expressions stand in keys and in strings; they come in the order of the text."""
    found: list[str] = []
    _gather(value, found)
    return found


def _gather(value: Any, found: list[str]) -> None:
    if isinstance(value, str):
        if value.startswith("(") and (text := expression(value)):
            found.append(text)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(key, str) and (parsed := parse_key(key)).is_expression:
                found.append(parsed.text)
            _gather(item, found)
    elif isinstance(value, list | tuple):
        for item in value:
            _gather(item, found)


def names_of(text: str) -> Iterator[str]:
    for piece in _PIECE.finditer(text):
        if piece["name"] is not None:
            yield piece["name"]


def names_in(value: Any) -> Iterator[str]:
    for text in expressions_in(value):
        yield from names_of(text)


def check_expression(text: str, bindings: Mapping[str, Any]) -> None:
    """Raises ScenarioError for an expression that cannot be read, or names a field that one of the known
    bindings lacks."""
    if is_cel(text):
        raise ScenarioError(f"({text}): Chainsaw's CEL is not supported here: write JMESPath")
    for piece in _PIECE.finditer(text):
        if piece["name"] in bindings:
            _of_path(text, piece["name"], bindings[piece["name"]], piece["path"])
    try:
        parsed = _parsed_expression(
            _PIECE.sub(lambda piece: f"`0`{piece['path']}" if piece["name"] else piece[0], text)
        )
    except JMESPathError as error:
        raise ScenarioError(f"({text}): {_first_line(error)}") from error
    for name in _called(parsed.parsed):
        if name not in known_functions():
            hint = did_you_mean(name, known_functions())
            raise ScenarioError(f"({text}): Chainsaw's function {name} is not supported here{hint}")


def _called(node: Mapping[str, Any]) -> Iterator[str]:
    if node["type"] == "function_expression":
        yield node["value"]
    for child in node.get("children") or ():
        if isinstance(child, Mapping):
            yield from _called(child)


def bind(value: Any, bindings: Mapping[str, Any]) -> Any:
    """Replaces every expression in keys and values by its value."""
    if isinstance(value, dict):
        return {
            str(bind(name, bindings)) if expression(name) else name: bind(item, bindings)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [bind(item, bindings) for item in value]
    if not isinstance(value, str):
        return value
    text = expression(value)
    return unescaped(value) if text is None else evaluate(text, bindings)
