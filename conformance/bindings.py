"""Expressions in scenarios: `($name.field)` in keys and values, JMESPath as in Chainsaw.

A string that is wholly one parenthesised expression becomes the expression's value, of whatever type; `$name`
is a binding. In assertions, a key in parentheses is evaluated against what was found.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError, JMESPathTypeError

from kubeskew.conformance.errors import ScenarioError, UnfitValueError
from kubeskew.conformance.functions import OPTIONS

_EXPRESSION = re.compile(r"^\((?P<text>.+)\)$", re.DOTALL)
_BINDING = re.compile(r"\$(?P<name>[A-Za-z_][A-Za-z0-9_]*)")


def expression(text: Any) -> str | None:
    """The expression of a string in parentheses; None for anything else."""
    found = _EXPRESSION.match(text) if isinstance(text, str) else None
    return found["text"] if found else None


def evaluate(text: str, bindings: Mapping[str, Any], found: Any = None) -> Any:
    """The value of an expression: `$name` is a binding, anything else is of `found`.

    Without `found` it is an empty object: of null, JMESPath makes a list of several values null.
    """
    for name in _BINDING.findall(text):
        if name not in bindings:
            raise ScenarioError(f"({text}): nothing is bound to ${name}; bound are {', '.join(bindings)}")
    # bindings become literals of the expression; whatever else it names is of what was found
    bound = _BINDING.sub(lambda match: _literal(bindings[match["name"]]), text)
    try:
        return jmespath.search(bound, {} if found is None else found, OPTIONS)
    except JMESPathTypeError as error:
        raise UnfitValueError(f"({text}): {error}") from error
    except JMESPathError as error:
        raise ScenarioError(f"({text}): {error}") from error


def _literal(value: Any) -> str:
    return "`" + json.dumps(value).replace("`", "\\`") + "`"


def bind(value: Any, bindings: Mapping[str, Any]) -> Any:
    """`value` with every expression in keys and values replaced by what it gives."""
    if isinstance(value, dict):
        return {
            str(bind(name, bindings)) if expression(name) else name: bind(item, bindings)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [bind(item, bindings) for item in value]
    text = expression(value)
    return value if text is None else evaluate(text, bindings)
