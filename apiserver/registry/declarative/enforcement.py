"""The findings that count, besides the errors of hand-written validation.

Of a kind that is validated declaratively, all count but those of the level alpha, beta ones if a gate says
so. For other kinds upstream only compares findings and errors, and so nothing is looked for. What an imported
release adds to its base counts everywhere: nobody has written rules for it by hand.

Source: staging/src/k8s.io/apiserver/pkg/registry/rest/validate.go
(ValidateDeclarativelyWithMigrationChecks), 1.33 to 1.36.
"""

from functools import lru_cache

from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.conversion.scheme import convert
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource, ResourceTable
from kubeskew.apimachinery.schema import Rules, Schema
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.declarative_features import DeclarativeFeatures
from kubeskew.apiserver.registry.declarative.checks import Check, Level, Operation
from kubeskew.apiserver.registry.declarative.compiler import Compiler, Settings, structs_in

_NONE: frozenset[Level] = frozenset()
_ADDED = frozenset({Level.ADDED})
_ALL = frozenset(Level)
_KEPT = 1024


def with_declared(
    errors: list[FieldError],
    new: Object,
    old: Object | None,
    resource: Resource,
    features: DeclarativeFeatures,
    gates: FeatureGates,
    requested: Resource | None = None,
    table: ResourceTable | None = None,
) -> list[FieldError]:
    """The errors with the findings that count, each once; `old` is None for a new object.

    Objects are checked in the version of the request, `requested`, if that is another one.
    """
    levels = _counting(resource, features, gates.version)
    if not levels:
        return errors
    version = requested or resource
    compiled = _compiled(version.schema, features, gates.version)
    if compiled is None:
        return errors
    if version is not resource:
        new = convert(new, version.gvk, table)
        old = None if old is None else convert(old, version.gvk, table)
    check, options = compiled
    operation = Operation(old is not None, gates.enabled_of(options))
    findings = [found for found in check(operation, "", new, old) if found.level in levels]
    if not findings:
        return errors
    # An added rule may be one that stands in the code of the base; others say the same as a declared one.
    replaced = {(error.type, error.path) for error, level in findings if _replaces(level, levels)}
    kept = [error for error in errors if (error.type, error.path) not in replaced]
    known = {(error.type, error.path) for error in kept}
    return kept + [
        error
        for error, level in findings
        if level is not Level.ADDED or (error.type, error.path) not in known
    ]


def _replaces(level: Level, levels: frozenset[Level]) -> bool:
    """True if hand-written errors for the same give way. The standard ones of enforced kinds have none."""
    return level is Level.BETA or (levels == _ALL and level is not Level.ADDED)


def _counting(resource: Resource, features: DeclarativeFeatures, version: Version) -> frozenset[Level]:
    kind = resource.storage_resource
    if kind in features.enforced:
        return _ALL - {Level.ALPHA} if features.beta else _ALL - {Level.ALPHA, Level.BETA}
    if kind in features.taken_over:
        return _ALL
    return _NONE if resource.custom or version.imported_from is None else _ADDED


@lru_cache(maxsize=_KEPT)
def _compiled(
    schema: Schema, features: DeclarativeFeatures, version: Version
) -> tuple[Check, tuple[str, ...]] | None:
    """The check of a kind and the options that its rules ask for; None without rules."""
    compiler = _compiler(features, version)
    if not compiler.has_rules(schema):
        return None
    return compiler.struct(schema), _options(schema)


@lru_cache(maxsize=64)
def _compiler(features: DeclarativeFeatures, version: Version) -> Compiler:
    base = None if version.imported_from is None else types_of(version.imported_from)
    return Compiler(
        Settings(features.lengths_in_bytes, features.immutable_is_forbidden, features.keys_may_repeat, base)
    )


def _options(schema: Schema) -> tuple[str, ...]:
    """The gates that the rules of a kind name: its strategy passes these on."""
    named: set[str] = set()
    for struct in structs_in(schema):
        for rules in (struct.rules, *(field.rules for field in struct.fields.values())):
            _gather_options(rules, named)
    return tuple(sorted(named))


def _gather_options(rules: Rules, named: set[str]) -> None:
    for name, *arguments in rules:
        if name in ("ifEnabled", "ifDisabled"):
            named.add(arguments[0])
        if name in ("type", "items", "keys"):
            _gather_options(arguments[0], named)
        elif name == "enum":
            named.update(option for _, option, _ in arguments[1:] and arguments[1])
        elif arguments and isinstance(arguments[-1], list):
            _gather_options(arguments[-1:], named)
