"""The declared rules of a release's types: `{definition: {field: rules}}`.

Rules of a struct itself stand under the empty name. Rules of other named types (enumerations, strings, lists)
stand with the fields that are of such a type, as `["type", [rule, …]]`: the catalogue keeps no such types. A
list or map whose items or keys have rules by their type has `["items", …]` and `["keys", …]`.
"""

from collections.abc import Mapping
from typing import Any

from kubeskew.releases.catalogue.validation_tags import Rule, TagError, rules_of

Declarations = Mapping[str, Mapping[str, Mapping[str, Any]]]
Rules = dict[str, list[Rule]]

_METADATA = ("ObjectMeta", "ListMeta")
_IMPORTED = {"corev1": "core/v1", "batchv1": "batch/v1", "schedulingv1alpha3": "scheduling/v1alpha3"}


def declared_rules(types: Declarations) -> dict[str, Rules]:
    """`types` are by package (`core/v1`) and name. Raises TagError, which names the field."""
    found = {}
    for package, declarations in types.items():
        for name, declared in declarations.items():
            rules = _struct(types, package, name, declared)
            if rules:
                found[f"io.k8s.api.{package.replace('/', '.')}.{name}"] = rules
    return found


def _struct(types: Declarations, package: str, name: str, declared: Mapping[str, Any]) -> Rules:
    if "fields" not in declared:
        return {}
    found = {"": _read(declared, f"{package}.{name}")}
    for field, content in declared["fields"].items():
        if not field.startswith("<inline:"):
            own = _read(content, f"{package}.{name}.{field}")
            found[field] = own + _of_type(types, package, content["type"])
            continue
        kind = content["type"].rpartition(".")[2]
        if kind in _METADATA:
            found["metadata"] = _read(content, f"{package}.{name}.metadata")
        elif kind != "TypeMeta":
            home, embedded = _declaration(types, package, content["type"])
            inner = _struct(types, home, kind, embedded)
            found[""] += inner.pop("", [])
            found = inner | found
    return {field: rules for field, rules in found.items() if rules}


def _read(declared: Mapping[str, Any], place: str) -> list[Rule]:
    try:
        return rules_of(declared.get("markers", ()))
    except TagError as error:
        raise TagError(f"{place}: {error}") from error


def _of_type(types: Declarations, package: str, expression: str) -> list[Rule]:
    """The rules that a field has by its type, if that is no struct with a definition of its own."""
    expression = expression.removeprefix("*")
    if expression.startswith("[]"):
        return _wrapped("items", _of_type(types, package, expression[2:]))
    if expression.startswith("map["):
        key, _, value = expression.removeprefix("map[").partition("]")
        keys, items = (_of_type(types, package, kind) for kind in (key, value))
        return _wrapped("keys", keys) + _wrapped("items", items)
    home, declared = _declaration(types, package, expression)
    if "fields" in declared or "alias" not in declared or declared["alias"] in ("=", "struct{}"):
        return []
    own = [_with_values(rule, declared) for rule in _read(declared, f"{home}.{expression}")]
    known = [rule for rule in own if rule is not None]
    return _wrapped("type", known + _of_type(types, home, declared["alias"]))


def _wrapped(name: str, rules: list[Rule]) -> list[Rule]:
    return [[name, rules]] if rules else []


def _with_values(rule: Rule, declared: Mapping[str, Any]) -> Rule | None:
    """None for an enumeration whose values are not known."""
    if rule != ["enum"] and rule[-1] != ["enum"]:
        return rule
    if not declared.get("values"):
        return None
    enum = ["enum", *_values(declared)]
    return enum if rule == ["enum"] else [*rule[:-1], enum]


def _values(declared: Mapping[str, Any]) -> list[Any]:
    """The values, and those that an option excludes: `[value, option, whether it excludes if it is on]`."""
    values, excluded = [], []
    marked = declared.get("valueMarkers", {})
    for value in sorted(declared.get("values", ())):
        rules = rules_of(marked.get(value, ()))
        if ["enumExclude"] in rules:
            continue
        values.append(value)
        excluded += [
            [value, rule[1], rule[0] == "ifEnabled"] for rule in rules if rule[-1] == ["enumExclude"]
        ]
    return [values, excluded] if excluded else [values]


def _declaration(types: Declarations, package: str, expression: str) -> tuple[str, Mapping[str, Any]]:
    """The package and the declaration of a named type; an empty declaration if it is not among `types`."""
    qualifier, _, name = expression.rpartition(".")
    stable = f"{package.split('/')[0]}/v1"
    if qualifier == "v1":
        package = stable if name in types.get(stable, {}) else "core/v1"
    elif qualifier:
        package = _IMPORTED.get(qualifier, "")
    declared = types.get(package, {}).get(name, {})
    if declared.get("alias") == "=" and package != stable:
        return stable, types.get(stable, {}).get(name, {})
    return package, declared
