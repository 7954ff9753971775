"""JMESPath functions that Chainsaw adds to the standard ones; those that scenarios are likely to use."""

import base64
import json
import re
from typing import Any

from jmespath import Options
from jmespath.functions import Functions, signature

_STRING: Any = {"types": ["string"]}
_NUMBER_OR_STRING: Any = {"types": ["string", "number"]}
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

    @signature(_STRING)
    def _func_base64_decode(self, text: str) -> str:
        return base64.b64decode(text).decode()

    @signature(_STRING)
    def _func_parse_json(self, text: str) -> Any:
        return json.loads(text)


OPTIONS = Options(custom_functions=ChainsawFunctions())
