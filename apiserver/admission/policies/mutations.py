"""What the mutations of a MutatingAdmissionPolicy do to an object.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/{smd,json_patch}.go, 1.36.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from apimachinery.errors import Object
from apimachinery.patching.json_patch import apply_json_patch
from apimachinery.patching.values import PatchError
from apimachinery.resources import GroupVersionKind
from apimachinery.schema import Kind, Schema
from apiserver.admission.dynamic.expressions import Expression
from apiserver.admission.policies.compiling import Compiler

if TYPE_CHECKING:
    from apiserver.services import Services

APPLY, JSON_PATCH = "ApplyConfiguration", "JSONPatch"
KINDS = (APPLY, JSON_PATCH)
_FIELDS = {APPLY: "applyConfiguration", JSON_PATCH: "jsonPatch"}
_PATCH_FIELDS = ("op", "path", "from", "value")


class MutationError(Exception):
    """A mutation that cannot be applied; failurePolicy decides."""


def expression(compiler: Compiler, kind: str, source: str, *, stored: bool = True) -> Expression:
    """The expression of a mutation of that patchType: an `Object`, or a list of `JSONPatch`."""
    from apimachinery import cel
    from apimachinery.cel import mutations, types

    environment = compiler.environment(stored=stored).extended(
        named=mutations.TYPES, libraries=(cel.JSON_PATCH,) if kind == JSON_PATCH else ()
    )
    made = mutations.TYPES[mutations.ROOT]
    result = types.list_of(mutations.JSON_PATCH_TYPE) if kind == JSON_PATCH else made
    return Expression(source, environment, (result,))


class Mutation:
    """One item of `spec.mutations`."""

    def __init__(self, compiler: Compiler, given: Mapping[str, Any]) -> None:
        self.kind: str = given.get("patchType") or ""
        source = (given.get(_FIELDS[self.kind]) or {}).get("expression") or ""
        self.expression = expression(compiler, self.kind, source)

    def apply(self, value: Any, obj: Object, schema: Schema) -> Object:
        """`obj` after what the expression came to; raises MutationError."""
        if self.kind == JSON_PATCH:
            return _patched(value, obj)
        return _merged(value, obj, schema)


def _patched(value: Any, obj: Object) -> Object:
    operations = [_operation(one) for one in value]
    try:
        patched: Object = apply_json_patch(obj, operations)
    except PatchError as error:
        if "test failed" in error.why or "testing " in error.why:  # a test that fails leaves all as it is
            return obj
        raise MutationError(f"JSON Patch: {error.why}") from None
    return patched


def _operation(value: Any) -> Object:
    from apimachinery import cel

    plain = cel.to_json(value)
    return {name: plain[name] for name in _PATCH_FIELDS if name in plain}


def _merged(value: Any, obj: Object, schema: Schema) -> Object:
    """The structured merge of an apply configuration: what it names wins, what it omits stays."""
    from apimachinery import cel
    from apimachinery.managedfields.atoms import TypedError
    from apimachinery.managedfields.merging import merge

    try:
        cel.mutations.check_names(value)
    except cel.EvaluationError as error:
        raise MutationError(f"type mismatch: {error}") from None
    config: Object = cel.to_json(value)
    _refuse_atoms(config, schema, "")
    try:
        return merge(obj, {**config, "apiVersion": obj["apiVersion"], "kind": obj["kind"]}, schema)
    except TypedError as error:
        raise MutationError(f"error applying patch: {error}") from None


def _refuse_atoms(value: Any, schema: Schema | None, path: str) -> None:
    """Raise MutationError if the configuration names a part of the object that can only be replaced whole."""
    if schema is None:
        return
    atomic = (schema.kind is Kind.LIST and schema.list_type == "atomic") or (
        schema.kind in {Kind.MAP, Kind.OBJECT} and schema.map_type == "atomic"
    )
    if atomic and value is not None:
        text = f"may not mutate atomic arrays, maps or structs: {path}"
        raise MutationError(f"error applying patch: invalid ApplyConfiguration: {text}")
    if isinstance(value, dict):
        for name, item in value.items():
            found = schema.fields.get(name)
            inner = found.schema if found is not None else schema.items
            _refuse_atoms(item, inner, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            _refuse_atoms(item, schema.items, path)


def schema_of(services: "Services", kind: GroupVersionKind) -> Schema:
    """The tree of a kind; raises MutationError."""
    resource = services.table.by_kind(*kind)
    if resource is None:
        raise MutationError(f"no type converter for {kind.api_version}, Kind={kind.kind}")
    return resource.schema
