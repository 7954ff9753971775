"""JMESPath functions that Chainsaw adds to the standard ones; those that scenarios are likely to use.

Functions that ask a cluster (`x_k8s_get`), or the time and chance, are not among them: an assertion is of
what was found, and says the same again.
"""

import base64
import json
import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Any

import yaml
from jmespath import Options
from jmespath.functions import Functions, signature

from kubeskew.conformance.errors import UnfitValueError

_STRING: Any = {"types": ["string"]}
_NUMBER_OR_STRING: Any = {"types": ["string", "number"]}
_NUMBER: Any = {"types": ["number"]}
_LIST: Any = {"types": ["array"]}
_SHOWN = 200  # characters of what cannot be parsed
_COLLECTION: Any = {"types": ["object", "array"]}


class ChainsawFunctions(Functions):
    """Found by jmespath by their names. Source: kyverno-json's and Chainsaw's function lists."""

    @signature(_COLLECTION, _NUMBER_OR_STRING)
    def _func_lookup(self, collection: Any, key: Any) -> Any:
        """The item of an object or array at a key that is not known beforehand; null if there is none."""
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
        return _parsed(json.loads, text)

    _func_json_parse = _func_parse_json  # Chainsaw has it by both names

    @signature(_STRING)
    def _func_parse_yaml(self, text: str) -> Any:
        return _parsed(yaml.safe_load, text)

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


def _parsed(parse: Any, text: str) -> Any:
    """Returns what a parser makes of a text. Raises UnfitValueError for one that it cannot read."""
    try:
        return parse(text)
    except (ValueError, yaml.YAMLError) as error:
        raise UnfitValueError(f"cannot be parsed: {error}: {text[:_SHOWN]!r}") from error


def _like(pattern: str, text: str) -> bool:
    """Says whether a text is like a pattern, in which only `*` and `?` stand for others."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))


def known_functions() -> Collection[str]:
    """The names of all functions that expressions may call."""
    return list(ChainsawFunctions.FUNCTION_TABLE)


OPTIONS = Options(custom_functions=ChainsawFunctions())
