"""Compiles and evaluates the CEL selectors of named resources, 1.30's: over maps of attributes by type.

Source: k8s.io/dynamic-resource-allocation/structured/namedresources/cel/compile.go, 1.30.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from kubeskew.apimachinery.cel import types
from kubeskew.apimachinery.cel.environments import Environment, Library, environment
from kubeskew.apimachinery.cel.library.kubernetes import STRICT_SEMVERS
from kubeskew.apimachinery.cel.program import Program, compile_expression
from kubeskew.apimachinery.cel.values import Semver
from kubeskew.apimachinery.quantity import Quantity

_COST_LIMIT = 1_000_000
_MINOR = 30
_TYPES = {
    "quantity": types.object_type("kubernetes.Quantity", {}),
    "bool": types.BOOL,
    "int": types.INT,
    "intslice": types.list_of(types.INT),
    "string": types.STRING,
    "stringslice": types.list_of(types.STRING),
    "version": types.object_type("kubernetes.Semver", {}),
}


@lru_cache(maxsize=2)
def attribute_environment(*, stored: bool) -> Environment:
    """One variable per type of attributes: `attributes.quantity` and so on."""
    variables = {
        f"attributes.{name}": types.map_of(types.STRING, attribute) for name, attribute in _TYPES.items()
    }
    return environment(_MINOR, stored=stored).extended(variables, libraries=(Library(0, STRICT_SEMVERS),))


def compile_selector(expression: str, *, stored: bool = True) -> Program:
    """Raises CompileError."""
    return compile_expression(expression, attribute_environment(stored=stored), (types.BOOL,))


def instance_matches(program: Program, instance: Mapping[str, Any]) -> bool:
    """Raises EvaluationError."""
    value, _ = program.evaluate(_bindings(instance), limit=_COST_LIMIT)
    return value is True


def _bindings(instance: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, dict[str, Any]] = {f"attributes.{name}": {} for name in _TYPES}
    for attribute in instance.get("attributes") or ():
        name = attribute["name"]
        if attribute.get("quantity") is not None:
            values["attributes.quantity"][name] = Quantity.parse(str(attribute["quantity"]))
        elif attribute.get("bool") is not None:
            values["attributes.bool"][name] = attribute["bool"]
        elif attribute.get("int") is not None:
            values["attributes.int"][name] = attribute["int"]
        elif attribute.get("intSlice") is not None:
            values["attributes.intslice"][name] = list(attribute["intSlice"].get("ints") or ())
        elif attribute.get("string") is not None:
            values["attributes.string"][name] = attribute["string"]
        elif attribute.get("stringSlice") is not None:
            values["attributes.stringslice"][name] = list(attribute["stringSlice"].get("strings") or ())
        elif attribute.get("version") is not None:
            values["attributes.version"][name] = Semver.parse(attribute["version"])
    return values
