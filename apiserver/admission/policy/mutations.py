"""Applies the mutations of a MutatingAdmissionPolicy to an object.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/{smd,json_patch}.go, 1.36.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kubeskew.apimachinery.errors import service_unavailable
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver.admission.dynamic.expressions import Expression
from kubeskew.apiserver.admission.policy.compiling import Compiler
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.apply.patching.json_patch import apply_json_patch
from kubeskew.apiserver.apply.patching.values import PatchError

APPLY, JSON_PATCH = "ApplyConfiguration", "JSONPatch"
KINDS = (APPLY, JSON_PATCH)
_FIELDS = {APPLY: "applyConfiguration", JSON_PATCH: "jsonPatch"}
_PATCH_FIELDS = ("op", "path", "from", "value")


class MutationError(Exception):
    """A mutation cannot be applied; failurePolicy decides."""


def expression(compiler: Compiler, kind: str, source: str, *, stored: bool = True) -> Expression:
    """Returns the expression of a mutation of that patchType: an `Object`, or a list of `JSONPatch`."""
    from kubeskew.apimachinery import cel
    from kubeskew.apimachinery.cel import mutations, types

    environment = compiler.environment(stored=stored).extended(
        named=mutations.TYPES, libraries=(cel.JSON_PATCH,) if kind == JSON_PATCH else ()
    )
    made = mutations.TYPES[mutations.ROOT]
    result = types.list_of(mutations.JSON_PATCH_TYPE) if kind == JSON_PATCH else made
    return Expression(source, environment, (result,))


class Mutation:
    """Holds an item of `spec.mutations`."""

    def __init__(self, compiler: Compiler, given: Mapping[str, Any]) -> None:
        self.kind: str = given.get("patchType") or ""
        source = (given.get(_FIELDS[self.kind]) or {}).get("expression") or ""
        self.expression = expression(compiler, self.kind, source)

    def apply(self, value: Any, obj: Object, schema: Schema) -> Object:
        """Returns `obj` after the mutation that the expression returned; raises MutationError."""
        if self.kind == JSON_PATCH:
            return _patched(value, obj)
        return _merged(value, obj, schema)


def _patched(value: Any, obj: Object) -> Object:
    operations = [_operation(operation) for operation in value]
    try:
        patched: Object = apply_json_patch(obj, operations)
    except PatchError as error:
        if "test failed" in error.why or "testing " in error.why:  # a test that fails leaves all as it is
            return obj
        raise MutationError(f"JSON Patch: {error.why}") from None
    return patched


def _operation(value: Any) -> Object:
    from kubeskew.apimachinery import cel

    _check_names(value.get("value"))
    try:
        plain = cel.to_json(value)
    except cel.EvaluationError as error:
        why = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
        raise MutationError(f"{why}: {error}") from None
    return {name: plain[name] for name in _PATCH_FIELDS if name in plain}


def _check_names(value: Any) -> None:
    from kubeskew.apimachinery.cel import mutations

    errors = mutations.name_errors(value)
    if errors:
        raise MutationError("type mismatch: " + "\n".join(errors))


def _merged(value: Any, obj: Object, schema: Schema) -> Object:
    """Returns the structured merge of an apply configuration: what it names wins, what it omits stays."""
    from kubeskew.apimachinery import cel
    from kubeskew.apiserver.apply.managedfields import merging, typed
    from kubeskew.apiserver.apply.managedfields.atoms import TypedError

    _check_names(value)
    try:
        config: Object = {**cel.to_json(value), "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    except cel.EvaluationError as error:
        raise MutationError(str(error)) from None
    failing = "failed to convert patch object to typed object"
    try:
        typed.validate(config, schema)
        atoms = list(_atoms(config, schema, ""))
        if atoms:
            why = f"may not mutate atomic arrays, maps or structs: {', '.join(atoms)}"
            raise MutationError(f"error applying patch: invalid ApplyConfiguration: {why}")
        failing = "failed to convert original object to typed object"
        typed.validate(obj, schema, allow_duplicates=True)
        failing = "failed to merge patch"
        return merging.merge(obj, config, schema)
    except TypedError as error:
        raise MutationError(f"error applying patch: {failing}: {error}") from None


def _atoms(value: Any, schema: Schema | None, path: str) -> Iterator[str]:
    """Yields the paths of atomic lists and maps in the configuration, which may not be set; no schema, no
    path.
    """
    if schema is None:
        return
    if isinstance(value, dict) and schema.kind in {Kind.MAP, Kind.OBJECT}:
        if schema.map_type == "atomic":
            yield path
        for name, item in value.items():
            found = schema.fields.get(name)
            yield from _atoms(item, found.schema if found is not None else None, f"{path}.{name}")
    elif isinstance(value, list) and schema.kind is Kind.LIST:
        if schema.list_type == "atomic":
            yield path
        for position, item in enumerate(value):
            yield from _atoms(item, schema.items, f"{path}[{position}]")


def schema_of(services: AdmissionServices, kind: GroupVersionKind) -> Schema:
    """Returns the tree of a kind; raises 503."""
    resource = services.table.by_kind(*kind)
    if resource is None:
        raise service_unavailable(
            f"Resource kind {kind.group}/{kind.version}, Kind={kind.kind} not found. There can be a delay "
            "between when CustomResourceDefinitions are created and when they are available."
        )
    return resource.schema
