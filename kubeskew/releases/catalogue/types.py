"""The types of one release: every named type with its fields, from Go types and OpenAPI together.

Go types have pointer, omitempty, gates, patch strategy; OpenAPI has the required fields, and it alone knows
the types of the shared machinery (ObjectMeta, …) and of the extension API servers. What it lacks of these
comes from their Go source (`machinery.py`).
`release(types, openapi)` gives `{definition name: {"fields": {json name: spec}, …}}`; a spec is the compact
dict of the catalogue:

    t   type: string bool int32 int64 double byte | definition name | []T | {}T (map of T)
        'N'T: T that has the name N in Go, and is no struct
    r   required        o  omitempty has an effect      p  Go pointer
    d   default         g  gates                        ps, pk  patch strategy, merge key

A definition of a tree may have `pd`, defaults that functions set, by path (see defaults.py).
    lt, lk  list type, map keys                         mt  map or struct type
"""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kubeskew.releases.catalogue.machinery import Overlay, overlay
from kubeskew.releases.catalogue.overlay import (
    EMPTY_COUNTS,
    INT_OR_STRING,
    META,
    NAMED_RESOURCES_POINTERS,
    QUANTITY,
    RAW,
)

Document = dict[str, Any]
Spec = dict[str, Any]

_SCALARS = {"string": "string", "bool": "bool", "int32": "int32", "int64": "int64"} | {
    "int": "int64", "uint": "int64", "uint32": "int64", "uint64": "int64", "int8": "int32", "int16": "int32",
    "uint8": "int32", "uint16": "int32", "float32": "double", "float64": "double",
}  # fmt: skip
_API = "k8s.io/api/"
_META_PACKAGE = "k8s.io/apimachinery/pkg/apis/meta/v1"
_WELL_KNOWN = {
    "k8s.io/apimachinery/pkg/api/resource.Quantity": QUANTITY,
    "k8s.io/apimachinery/pkg/util/intstr.IntOrString": INT_OR_STRING,
    "k8s.io/apimachinery/pkg/runtime.RawExtension": RAW,
}
_NAMED_STRINGS = "k8s.io/apimachinery/pkg/types"
_PACKAGES = {
    "corev1": "core/v1", "apiv1": "core/v1", "authenticationv1": "authentication/v1", "batchv1": "batch/v1",
    "cdiv1alpha1": "cdi/v1alpha1",
    "authorizationv1": "authorization/v1", "schedulingv1alpha3": "scheduling/v1alpha3",
}  # fmt: skip
_META_UNPUBLISHED = {"List", "TypeMeta", "GroupVersionKind", "GroupVersionResource"}
_META_STRINGS = {"ConditionStatus", "LabelSelectorOperator", "FieldSelectorOperator", "StatusReason"}

_GATE_NAMES = {"PodCertificateProjection": "PodCertificateRequest"}  # the marker's name is not the gate's


def named(name: str, kind: str) -> str:
    """A type with a name of its own, as Go's errors write it: `v1.ResourceName`, `string`."""
    return f"'{name}'{kind}"


def definition_name(package: str, name: str) -> str:
    """`core/v1`, `Pod` → `io.k8s.api.core.v1.Pod`."""
    return f"io.k8s.api.{package.replace('/', '.')}.{name}"


class GoTypes:
    """Resolves Go type expressions of one release to catalogue types.

    `imports` are import paths by the names that a package uses for them. Without them, the names decide.
    Raises ValueError, in one line, for an expression that no field of the API has.
    """

    def __init__(
        self,
        types: Document,
        openapi: Document,
        imports: Mapping[str, Mapping[str, str]] | None = None,
        constants: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        self.types = types
        self.published = openapi["definitions"].keys()
        self.meta = {name.removeprefix(META) for name in openapi["definitions"] if name.startswith(META)}
        self._imports = imports
        self.constants = constants

    def resolve(self, package: str, expression: str) -> tuple[str, bool]:
        """Resolves a Go type as seen in `package`; True means that it is a pointer."""
        if expression.startswith("*"):
            return self.resolve(package, expression[1:])[0], True
        if expression in ("[]byte", "[]uint8"):
            return "byte", False
        if expression.startswith("[]"):
            return "[]" + self.resolve(package, expression[2:])[0], False
        found = re.match(r"map\[([^]]+)\](.*)$", expression)
        if found:
            kind = "{}" + self.resolve(package, found[2])[0]
            if found[1] == "string":
                return kind, False
            if found[1] in _SCALARS:
                raise ValueError(f"{package}: a map with keys of the type {found[1]} is unknown")
            self.resolve(package, found[1])
            key, value = (self._reflected(package, name) for name in found.groups())
            return named(f"map[{key}]{value}", kind), False
        if expression in _SCALARS:
            return _SCALARS[expression], False
        if not re.fullmatch(r"(\w+\.)?[A-Za-z]\w*", expression):
            raise ValueError(f"{package}: a field of the type {' '.join(expression.split())} is unknown")
        qualifier, _, name = expression.rpartition(".")
        return (self._imported(package, qualifier, name) if qualifier else self._local(package, name)), False

    def _reflected(self, package: str, name: str) -> str:
        """Reflection puts before a type's name the last part of its package's path."""
        qualifier, _, bare = name.rpartition(".")
        if not qualifier:
            return f"{package.split('/')[1]}.{name}"
        path = (self._imports or {}).get(package, {}).get(qualifier, qualifier)
        return f"{path.rpartition('/')[2]}.{bare}"

    def _imported(self, package: str, qualifier: str, name: str) -> str:
        if self._imports is not None:
            return self._of_package(package, qualifier, name)
        if qualifier in ("types", "apimachinerytypes"):
            return named(f"types.{name}", "string")
        well_known = {"resource": QUANTITY, "intstr": INT_OR_STRING, "runtime": RAW}.get(qualifier)
        if well_known:
            return well_known
        if name in _META_STRINGS:
            return named(f"v1.{name}", "string")
        if qualifier == "metav1" or (qualifier == "v1" and name in self.meta | _META_UNPUBLISHED):
            return META + name
        if qualifier == "v1":
            own = package.split("/")[0] + "/v1"
            return self._local(own if name in self.types.get(own, {}) else "core/v1", name)
        return self._local(_PACKAGES[qualifier], name)

    def _of_package(self, package: str, qualifier: str, name: str) -> str:
        path = (self._imports or {}).get(package, {}).get(qualifier, "")
        if path == _NAMED_STRINGS:
            return named(f"types.{name}", "string")
        if f"{path}.{name}" in _WELL_KNOWN:
            return _WELL_KNOWN[f"{path}.{name}"]
        if path == _META_PACKAGE:
            if name in _META_STRINGS:
                return named(f"v1.{name}", "string")
            if name in self.meta | _META_UNPUBLISHED:
                return META + name
        if path.startswith(_API):
            return self._local(path.removeprefix(_API), name)
        raise ValueError(f"{package}: the type {qualifier}.{name} is unknown ({path})")

    def _local(self, package: str, name: str) -> str:
        declared = self.types.get(package, {}).get(name, {})
        alias = declared.get("alias")
        if definition_name(package, name) in self.published:
            return definition_name(package, name)
        if not declared and self._imports is not None:
            raise ValueError(f"{package}: there is no type {name}")
        if alias is None or alias == "struct{}" or (alias == "string" and is_enum(declared)):
            return definition_name(package, name)
        if alias == "=":
            return self._same_as(package, name)
        kind = self.resolve(package, alias)[0]
        return named(f"{package.split('/')[1]}.{name}", re.sub(r"^'[^']*'", "", kind))

    def _same_as(self, package: str, name: str) -> str:
        other = self.types[package][name].get("of")
        if other is not None:
            return self.resolve(package, other)[0]
        stable = package.split("/")[0] + "/v1"
        if package != stable:
            return self._local(stable, name)
        return self._local(package, name.removesuffix("Type"))

    def declared(self, package: str, expression: str) -> tuple[str, Document]:
        """The declaration of a struct and its package, through aliases."""
        qualifier, _, name = expression.removeprefix("*").rpartition(".")
        if qualifier and self._imports is not None:
            path = self._imports.get(package, {}).get(qualifier, "")
            package = path.removeprefix(_API)
        found: Document = self.types.get(package, {}).get(name, {})
        if "of" in found:
            return self.declared(package, found["of"])
        if found.get("alias") == "=":
            package = package.split("/")[0] + "/v1"
            found = self.types[package][name]
        if "fields" not in found and found.get("alias") != "struct{}":
            raise ValueError(f"{package}: {expression} is embedded and is no struct of the API")
        return package, found

    def is_struct(self, kind: str) -> bool:
        """omitempty never leaves out a Go struct."""
        if not kind.startswith("io."):
            return False
        found = re.match(r"io\.k8s\.api\.([^.]+)\.([^.]+)\.([^.]+)$", kind)
        return (
            found is None or self.types[f"{found[1]}/{found[2]}"].get(found[3], {}).get("alias") != "string"
        )


def is_enum(declared: Document) -> bool:
    """A string type with these marks is closed over its constants."""
    marks = {mark.lstrip("+") for mark in declared.get("markers", [])}
    return bool(marks & {"enum", "k8s:enum"}) and bool(declared.get("values"))


def _marks(field: Document) -> dict[str, list[str]]:
    marks: dict[str, list[str]] = {}
    for mark in field.get("markers", []):
        name, _, value = mark.partition("=")
        marks.setdefault(name, []).append(value.split(" +")[0])
    return marks


def _default(marks: dict[str, list[str]], constants: Mapping[str, Any]) -> Spec:
    if "default" not in marks:
        return {}
    text = marks["default"][0]
    if text.startswith("ref("):
        return {"d": constants[text[4:-1]]}
    try:
        return {"d": json.loads(text)}
    except ValueError:
        raise ValueError(f"+default={text} is no JSON") from None


def _treatment(field: Document, marks: dict[str, list[str]]) -> Spec:
    spec: Spec = {}
    if "featureGate" in marks:
        names = [gate for value in marks["featureGate"] for gate in value.split(",")]
        spec["g"] = [_GATE_NAMES.get(name, name) for name in names]
    if "patchStrategy" in field:
        spec["ps"] = field["patchStrategy"].split(",")
    if "patchMergeKey" in field:
        spec["pk"] = field["patchMergeKey"]
    if "listType" in marks:
        spec["lt"] = marks["listType"][0]
    if "listMapKey" in marks:
        spec["lk"] = list(dict.fromkeys(marks["listMapKey"]))
    for mark in ("mapType", "structType"):
        if mark in marks:
            spec["mt"] = marks[mark][0]
    return spec


def _go_field(go: GoTypes, package: str, field: Document) -> Spec:
    kind, pointer = go.resolve(package, field["type"])
    marks = _marks(field)
    spec: Spec = {"t": kind}
    omit = bool(field.get("omitempty"))
    if omit and (pointer or not go.is_struct(kind)):
        spec["o"] = 1
    if pointer or EMPTY_COUNTS.intersection(marks.get("featureGate", ())):
        spec["p"] = 1
    if not omit and "optional" not in marks and "k8s:optional" not in marks:
        spec["r"] = 1
    if "required" in marks or "k8s:required" in marks:
        spec["r"] = 1
    if "doc" in field:
        spec["doc"] = field["doc"]
    return spec | _default(marks, go.constants.get(package, {})) | _treatment(field, marks)


_TYPE_META = {"kind": {"t": "string", "o": 1}, "apiVersion": {"t": "string", "o": 1}}


def go_fields(go: GoTypes, package: str, declared: Document) -> dict[str, Spec]:
    """Embedded structs are flattened; outer fields win."""
    fields: dict[str, Spec] = {}
    embedded: dict[str, Spec] = {}
    for name, field in declared.get("fields", {}).items():
        if not name.startswith("<inline:"):
            try:
                fields[name] = _go_field(go, package, field)
            except ValueError as error:
                raise ValueError(f"{error}, in field {name}") from None
            continue
        kind = field["type"].rpartition(".")[2]
        if kind == "TypeMeta":
            embedded |= _TYPE_META
        elif kind in ("ObjectMeta", "ListMeta"):
            embedded["metadata"] = {"t": META + kind}
        else:
            embedded |= _embedded(go, package, field["type"])
    ordered = {name: embedded.pop(name) for name in ("kind", "apiVersion", "metadata") if name in embedded}
    return ordered | embedded | fields


def _embedded(go: GoTypes, package: str, expression: str) -> dict[str, Spec]:
    owner, declared = go.declared(package, expression)
    return go_fields(go, owner, declared)


def _openapi_type(schema: Document) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix("#/definitions/")
    kind, form = schema["type"], schema.get("format", "")
    if kind == "array":
        return "[]" + _openapi_type(schema["items"])
    if "additionalProperties" in schema:
        return "{}" + _openapi_type(schema["additionalProperties"])
    plain = {
        "string": form or "string",
        "boolean": "bool",
        "integer": form,
        "number": "double",
        "object": RAW,
    }
    return str(plain[kind])


def _openapi_field(owner: str, name: str, schema: Document, required: bool, of: Overlay) -> Spec:
    path = f"{owner}.{name}"
    kind = _openapi_type(schema)
    spec: Spec = {"t": named(of.names[path], kind) if path in of.names else kind}
    if required:
        spec["r"] = 1
    elif path not in of.values and path not in of.written_empty:
        spec["o"] = 1
    if path in of.pointers | NAMED_RESOURCES_POINTERS or (
        spec["t"].startswith("io.") and path not in of.values | of.omitted_zeros
    ):
        spec["p"] = 1
    return spec | _extensions(schema)


def _extensions(schema: Document) -> Spec:
    spec: Spec = {}
    for extension, key in (("list-type", "lt"), ("list-map-keys", "lk"), ("map-type", "mt")):
        if f"x-kubernetes-{extension}" in schema:
            spec[key] = schema[f"x-kubernetes-{extension}"]
    if "x-kubernetes-patch-strategy" in schema:
        spec["ps"] = schema["x-kubernetes-patch-strategy"].split(",")
    if "x-kubernetes-patch-merge-key" in schema:
        spec["pk"] = schema["x-kubernetes-patch-merge-key"]
    return spec


def _from_openapi(name: str, definition: Document, of: Overlay) -> Document:
    required = definition.get("required", ())
    fields = {
        field: _openapi_field(name, field, schema, field in required, of)
        for field, schema in definition.get("properties", {}).items()
    }
    made: Document = {
        "fields": {key: fields.pop(key) for key in ("kind", "apiVersion") if key in fields} | fields
    }
    if "x-kubernetes-map-type" in definition:
        made["mt"] = definition["x-kubernetes-map-type"]
    return made


def _agree(made: Document, definition: Document) -> None:
    """Published OpenAPI decides what it knows."""
    required = definition.get("required", ())
    for name, schema in definition.get("properties", {}).items():
        spec = made["fields"].get(name)
        if spec is None:
            continue
        spec.pop("r", None)
        if name in required:
            spec["r"] = 1
        for key in ("lt", "lk", "mt"):
            spec.pop(key, None)
        spec.update(_extensions(schema))


def release(types: Document, openapi: Document, published: bool) -> dict[str, Document]:
    """`published` means that `openapi` is of that very release.

    `types` that are read from a tree have their `imports` and the `machinery`; others are known from files
    of single packages. Raises ValueError for types that no API can have.
    """
    try:
        return _release(types, openapi, published)
    except RecursionError:
        raise ValueError("types are made of themselves in a circle") from None


def _release(types: Document, openapi: Document, published: bool) -> dict[str, Document]:
    packages = types["types"]
    go = GoTypes(packages, openapi, types.get("imports"), types.get("constants", {}))
    of = overlay(types.get("machinery", {}))
    found: dict[str, Document] = {}
    for package, declarations in packages.items():
        for name, declared in declarations.items():
            full = definition_name(package, name)
            if "fields" in declared or declared.get("alias") == "struct{}":
                try:
                    made: Document = {"fields": go_fields(go, package, declared)}
                except ValueError as error:
                    raise ValueError(f"{error} of {package}.{name}") from None
                if "+structType=atomic" in declared.get("markers", []):
                    made["mt"] = "atomic"
                definition = openapi["definitions"].get(full)
                if definition is not None and (published or _same_fields(made, definition)):
                    _agree(made, definition)
                found[full] = made
            elif declared.get("alias") == "string" and is_enum(declared):
                found[full] = {"values": sorted(declared["values"])}
    for name, definition in openapi["definitions"].items():  # absent from the Go sources
        if name not in found and (name.startswith(META) or not name.endswith("List")):
            found[name] = _from_openapi(name, definition, of)
    return found


def _same_fields(made: Document, definition: Document) -> bool:
    return set(made["fields"]) & set(definition.get("properties", ())) != set()
