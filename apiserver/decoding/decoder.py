"""Decoding of a request body: JSON, YAML or protobuf, typed along the schema, strict on demand.

Objects are normalised and stay in the version they were sent in; defaults and conversion follow. Unknown
fields of custom resources are pruned, without a look at types (validation does that), except those of
metadata, which is a Go struct here too. Empty lists of built-in objects go where Go omits them: only fields
without `omitempty` show it, so `rules: []` of a role is read again as `rules: null`.

Errors are the 400s of k8s.io/apiserver/pkg/endpoints/handlers (create.go, rest.go) over
runtime/serializer/json, 1.36. Source of pruning: apiextensions-apiserver
pkg/apiserver/customresource_handler.go (unstructuredSchemaCoercer), 1.36.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from kubeskew.apimachinery.errors import StatusError, bad_request
from kubeskew.apimachinery.field import child, index
from kubeskew.apimachinery.go_formats import as_written
from kubeskew.apimachinery.golang import decode_errors, json_syntax
from kubeskew.apimachinery.golang.raw_extensions import raw_fields
from kubeskew.apimachinery.golang.roundtrip import WrongShape, normalise_and_report
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind, Resource, ResourceTable, Subresource
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.decoding import protobuf
from kubeskew.apiserver.decoding.go_json import load_repeated, nests_deeper_than
from kubeskew.apiserver.structuralschema import Structural, objects, prune
from kubeskew.apiserver.structuralschema.model import structural_of
from kubeskew.apiserver.structuralschema.objects import CoercionError

_META = "metadata"
_Walk = Callable[[Any], None]
_JSON_STORED: Final = ("io.k8s.apiextensions-apiserver.", "io.k8s.kube-aggregator.")
_COLLECTIONS: Final = (Kind.LIST, Kind.MAP)


def coerce(
    value: Object, structural: Structural, metadata: Schema | None, *, drop_invalid: bool = False
) -> tuple[Object, list[str]]:
    """Copies and prunes a custom resource, and lists what was dropped: `unknown field "a.b"`.

    Raises WrongShape for metadata that does not fit, CoercionError for that of an embedded resource unless
    `drop_invalid`. Stored objects are read with `drop_invalid`; their numbers are as they are written again.


    """
    copied = as_written if drop_invalid else _copied
    kept: Object = {name: copied(item) for name, item in value.items() if name != _META}
    dropped: list[str] = []
    if metadata is not None and _META in value:
        given = {} if value[_META] is None else value[_META]
        kept[_META], lost = normalise_and_report(given, metadata)
        if lost:
            strict = decode_errors.strict_errors(value[_META], metadata)
            dropped += [
                f'unknown field "metadata.{error[15:]}' for error in strict if error.startswith("unknown")
            ]
    elif _META in value:
        kept[_META] = value[_META]
    unknown = prune(kept, structural)
    unknown += objects.coerce(kept, structural, drop_invalid=drop_invalid)
    return kept, [*dropped, *(f'unknown field "{path}"' for path in unknown)]


def duplicates(value: Any, path: str = "") -> Iterator[str]:
    """Each key given twice is a `duplicate field "a.b"`, in the order of the document."""
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from duplicates(item, index(path, position))
    elif isinstance(value, dict):
        for key, item, again in decode_errors.members(value):
            at = child(path, key)
            if again:
                yield f'duplicate field "{at}"'
            yield from duplicates(item, at)


def _copied(value: Any) -> Any:
    """Numbers beyond 64 bits become floats, as Go holds them."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def forget_empty_lists(obj: Any, schema: Schema) -> None:
    """Makes null, in place, what is empty in `obj` and always written."""
    walk = None if schema.name.startswith(_JSON_STORED) else _walk_of(schema)
    if walk is not None:
        walk(obj)


@lru_cache(maxsize=4096)
def _walk_of(schema: Schema) -> _Walk | None:
    if schema.items is not None:
        inner = _walk_of(schema.items)
        return None if inner is None else _each(inner, schema.kind)
    steps = [step for name, field in schema.fields.items() if (step := _step(name, field))]
    return _struct(steps) if steps else None


def _step(name: str, field: Field) -> tuple[str, bool, _Walk | None] | None:
    nulls = field.schema.kind in _COLLECTIONS and not field.omit_empty
    inner = _later(field.schema) if _contains_itself(field.schema) else _walk_of(field.schema)
    return (name, nulls, inner) if nulls or inner is not None else None


def _contains_itself(schema: Schema) -> bool:
    """True for a struct that is part of its own fields, and for a list or map of such structs."""
    while schema.items is not None:
        schema = schema.items
    todo = [field.schema for field in schema.fields.values()]
    seen: set[str] = set()
    while todo:
        inner = todo.pop()
        while inner.items is not None:
            inner = inner.items
        if inner.name and inner.name == schema.name:
            return True
        if inner.name not in seen:
            seen.add(inner.name)
            todo += [field.schema for field in inner.fields.values()]
    return False


def _later(schema: Schema) -> _Walk:
    """The walk is made when a value is there, for it leads back to itself."""

    def walk(value: Any) -> None:
        inner = _walk_of(schema)
        if inner is not None:
            inner(value)

    return walk


def _struct(steps: list[tuple[str, bool, _Walk | None]]) -> _Walk:
    def walk(value: Any) -> None:
        for name, nulls, inner in steps:
            held = value.get(name)
            if held:
                if inner is not None:
                    inner(held)
            elif nulls:
                value[name] = None

    return walk


def _each(inner: _Walk, kind: Kind) -> _Walk:
    def walk(value: Any) -> None:
        for item in value.values() if kind is Kind.MAP else value:
            inner(item)

    return walk


MAX_DEPTH: Final = 230  # brackets inside each other in a body; Go allows 10,000
MAX_OBJECT_DEPTH: Final = 245  # with its managed fields; orjson writes 254
SUMMARY_BYTES = 30
_HEAD = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_SCHEME = "pkg/api/legacyscheme/scheme.go:30"  # the name of upstream's scheme in its errors


class Parsed(NamedTuple):
    """A body as a JSON value. An object with a repeated key is a `decode_errors.Repeated`.

    `duplicates` are strict errors that the format itself found (YAML).

    """

    value: Any
    duplicates: Sequence[str] = ()


class Decoded(NamedTuple):
    """The object is as it was sent, but normalised; `warnings` are texts for Warning headers (validation
    "Warn").
    """

    object: Object
    warnings: list[str]
    gvk: GroupVersionKind


def is_protobuf(content_type: str) -> bool:
    """Bodies of `…;type=…` are other programs' messages."""
    return content_type.partition(";")[0].strip().lower() == protobuf.MEDIA_TYPE


def is_yaml(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() in {
        "application/yaml",
        "application/apply-patch+yaml",
    }


def parse(body: bytes, content_type: str, schema: Schema | None = None) -> Parsed:
    """Protobuf is read along `schema`. Raises ValueError with Go's text."""
    if schema is not None and is_protobuf(content_type):
        return Parsed(protobuf.decode_unknown(body, lambda *_: schema))
    try:
        if not is_yaml(content_type):
            return Parsed(_load_json(body))
        from kubeskew.apimachinery.golang import yaml_body

        parsed = Parsed(*yaml_body.load(body))
    except RecursionError:
        raise ValueError("exceeded max depth") from None
    if _may_nest(body):
        check_depth(parsed.value)
    return parsed


def check_depth(value: Any, limit: int = MAX_DEPTH) -> None:
    """Raises ValueError if a JSON value is nested too deep."""
    if nests_deeper_than(value, limit):
        raise ValueError("exceeded max depth")


def _may_nest(body: bytes) -> bool:
    if len(body) <= MAX_DEPTH:
        return False
    return body.count(b"{") + body.count(b"[") + body.count(b"\n") + body.count(b"-") > MAX_DEPTH


def _load_json(body: bytes) -> Any:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        json_syntax.check(body)
        json_syntax.check(body, MAX_DEPTH)  # what Go would take
        return _repeated(body)  # Go accepts it, orjson does not: invalid UTF-8, lone surrogates, huge numbers
    if _may_nest(body) and nests_deeper_than(value, MAX_DEPTH):
        json_syntax.check(body, MAX_DEPTH)  # before it is written again below
    return _repeated(body) if _may_repeat_keys(body, value) else value


def _repeated(body: bytes) -> Any:
    value = load_repeated(body)
    if _may_nest(body):
        check_depth(value)
    return value


def _may_repeat_keys(body: bytes, value: Any) -> bool:
    """Compares how often `":` stands in the body and in what the parser kept: every key is followed by it,
    and so is little else.

    What the parser kept has as many of these as the body, unless keys were lost (or written unusually).

    """
    if b"\\u0022" in body or b'" :' in body or b'"\t:' in body or b'"\n:' in body or b'"\r:' in body:
        return True
    return body.count(b'":') != orjson.dumps(value).count(b'":')


def decode(
    body: bytes,
    content_type: str,
    resource: Resource | Subresource,
    table: ResourceTable,
    validation: str = "Warn",
    schema: Schema | None = None,
) -> Decoded:
    """Refuses a body of another kind than that of `resource`, or one that cannot be read (StatusError, 400).

    `validation` is the request's fieldValidation: Strict, Warn or Ignore. `schema` is needed for subresources
    whose kind is no resource (Scale, Eviction, Binding).

    """
    expected = resource.gvk
    envelope: protobuf.Envelope | None = None
    try:
        if is_protobuf(content_type):
            envelope = protobuf.read_envelope(body)
            parsed = Parsed({"apiVersion": envelope.api_version, "kind": envelope.kind})
        else:
            parsed = parse(body, content_type)
    except ValueError as error:
        raise unrecognized(expected.kind, unreadable(error, content_type), body) from None
    gvk = _kind_of(parsed.value, expected, body)
    structural = structural_of(resource)
    if isinstance(resource, Resource) and structural is not None:
        gvk = _custom_kind(parsed.value or {}, expected, body, validation)
        fitting = structural if gvk == expected else Structural.of(None)
        return decode_value(parsed, gvk, resource.schema, validation, structural=fitting)
    if gvk != expected:
        if not gvk.version:
            raise cannot_handle(gvk, expected.kind, missing_version(body))
        _refuse_other_kind(gvk, expected, table)
    if isinstance(resource, Resource):
        schema = resource.schema
    if schema is None:
        by_name = getattr(table, "kind_schema", None)  # the catalogue knows kinds that are no resources
        schema = by_name(*gvk) if by_name is not None else None
    if schema is None:
        owner = table.by_kind(*gvk)
        if owner is None:
            raise cannot_handle(gvk, expected.kind, _unregistered(gvk))
        schema = owner.schema
    if envelope is not None:
        parsed = _read_message(envelope, gvk, expected.kind, schema)
    else:
        _keep_raw_fields(parsed.value, body, content_type, schema)
    return decode_value(parsed, gvk, schema, validation)


def _keep_raw_fields(value: Any, body: bytes, content_type: str, schema: Schema) -> None:
    """Raw fields of a body keep their bytes; YAML is made JSON first, with Go's order of keys."""
    raw = raw_fields(schema)
    if raw is None or not isinstance(value, dict):
        return
    if is_yaml(content_type):
        raw.sort(value)
    elif raw.may_be_in(body):
        raw.keep(value, body)


def unreadable(error: ValueError, content_type: str) -> str:
    """Only the JSON serializer adds the subject to the error of a body whose kind cannot be read."""
    if is_yaml(content_type) or is_protobuf(content_type):
        return str(error)
    return f"couldn't get version/kind; json parse error: {error}"


def _read_message(envelope: protobuf.Envelope, gvk: GroupVersionKind, kind: str, schema: Schema) -> Parsed:
    try:
        value = protobuf.read_object(envelope.raw, schema)
    except protobuf.WireError as error:
        raise cannot_handle(gvk, kind, str(error)) from None
    if nests_deeper_than(value, MAX_DEPTH):
        raise cannot_handle(gvk, kind, "exceeded max depth")
    return Parsed(value)


def keep_reset(sent: Object, obj: Object) -> None:
    """Gives `obj` back the empty list of managers that asks to forget all of them."""
    metadata = sent.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") == [] and "metadata" in obj:
        obj["metadata"]["managedFields"] = []


def decode_value(
    parsed: Parsed,
    gvk: GroupVersionKind,
    schema: Schema,
    validation: str,
    *,
    structural: Structural | None = None,
) -> Decoded:
    """Does the typed part of `decode`, for a value that is already parsed (a patched object, for example).

    A custom resource is pruned along `structural`, not typed along its schema.


    """
    value = {} if parsed.value is None else parsed.value
    try:
        if structural is None:
            walked, dropped = normalise_and_report(value, schema)
            keep_reset(value, walked)
            unknown: list[str] = []
        else:
            walked, unknown = coerce(value, structural, _metadata(schema))
            dropped = bool(unknown)
    except WrongShape:
        metadata = _metadata(schema) if structural is not None else None
        wrong = (value, schema) if metadata is None else (value["metadata"], metadata)
        raise cannot_handle(gvk, gvk.kind, decode_errors.explain(*wrong)) from None
    except CoercionError as error:
        raise cannot_handle(gvk, gvk.kind, str(error)) from None
    except RecursionError:
        raise cannot_handle(gvk, gvk.kind, "exceeded max depth") from None
    warnings: list[str] = []
    if validation != "Ignore":
        warnings = list(parsed.duplicates)
        if structural is not None:
            warnings += [
                *(decode_errors.kept_errors(duplicates(value)) if _has_repeated(value) else ()),
                *unknown,
            ]
        elif dropped or _has_repeated(value):
            warnings += decode_errors.strict_errors(value, schema)
    if warnings and validation == "Strict":
        raise cannot_handle(gvk, gvk.kind, f"strict decoding error: {', '.join(warnings)}")
    walked["apiVersion"], walked["kind"] = gvk.api_version, gvk.kind
    return Decoded(walked, lines(warnings), gvk)


def lines(warnings: Sequence[str]) -> list[str]:
    if not warnings:
        return []
    from kubeskew.apimachinery.golang import yaml_body

    return [line for text in warnings for line in yaml_body.lines_of(text)]


def _metadata(schema: Schema) -> Schema | None:
    field = schema.fields.get("metadata")
    return field.schema if field is not None else None


def _has_repeated(value: Any) -> bool:
    """Only the slow parser makes `Repeated`; it marks the outermost object when any key repeats."""
    return isinstance(value, decode_errors.Repeated)


def head_error(value: Object) -> str | None:
    """None if apiVersion and kind can be read."""
    for name in ("apiVersion", "kind"):
        if not isinstance(value.get(name), str | None):
            what = decode_errors.found(value[name])
            why = f"json: cannot unmarshal {what} into Go struct field .{name} of type string"
            return f"couldn't get version/kind; json parse error: {why}"
    api_version: str = value.get("apiVersion") or ""
    return f"unexpected GroupVersion string: {api_version}" if api_version.count("/") > 1 else None


def _kind_of(value: Any, expected: GroupVersionKind, body: bytes) -> GroupVersionKind:
    """Takes apiVersion and kind from the request where the body has none."""
    if value is None:
        return expected
    if not isinstance(value, dict):
        raise unrecognized(expected.kind, no_object(value), body)
    if value.get("kind") == expected.kind and value.get("apiVersion") == expected.api_version:
        return expected
    why = head_error(value)
    if why is not None:
        raise unrecognized(expected.kind, why, body)
    api_version, kind = value.get("apiVersion") or "", value.get("kind") or expected.kind
    group, _, version = api_version.rpartition("/")
    if not version and group in ("", expected.group):
        group, version = expected.group, expected.version
    return GroupVersionKind(group, version, kind)


def _custom_kind(value: Object, expected: GroupVersionKind, body: bytes, validation: str) -> GroupVersionKind:
    """Requires both apiVersion and kind of a custom resource; another kind is refused later."""
    api_version, kind = value.get("apiVersion") or "", value.get("kind") or ""
    text = body.decode(errors="replace")
    if not kind:
        why = f"Object 'Kind' is missing in '{text}'"
        if validation == "Ignore":  # the lenient decoder takes the kind from the request
            raise cannot_handle(expected, expected.kind, why)
        raise unrecognized(expected.kind, why, body)
    if "apiVersion" in value and value["apiVersion"] is None:
        why = ".apiVersion accessor error: <nil> is of the type <nil>, expected string"
        raise cannot_handle(GroupVersionKind("", "", kind), expected.kind, why)
    if api_version != expected.api_version:
        raise _other_version(api_version, expected)
    return GroupVersionKind(expected.group, expected.version, kind)


def _other_version(api_version: str, expected: GroupVersionKind) -> StatusError:
    return bad_request(
        f"the API version in the data ({api_version}) does not match the expected API version "
        f"({expected.api_version})"
    )


def missing_version(text: bytes) -> str:
    return f"Object 'apiVersion' is missing in '{text.decode(errors='replace')}'"


def no_object(value: Any) -> str:
    if value is None:
        return "Object 'Kind' is missing in 'null'"
    why = f"json: cannot unmarshal {decode_errors.found(value)} into Go value of type {_HEAD}"
    return f"couldn't get version/kind; json parse error: {why}"


def _refuse_other_kind(gvk: GroupVersionKind, expected: GroupVersionKind, table: ResourceTable) -> None:
    if gvk[::2] == expected[::2] == ("policy", "Eviction"):
        return  # policy/v1beta1 is taken as well as v1, from the same fields
    if not is_registered(gvk, table):
        raise cannot_handle(gvk, expected.kind, _unregistered(gvk))
    if (gvk.group, gvk.kind) == (expected.group, expected.kind):
        raise _other_version(gvk.api_version, expected)
    into = f"{expected.group.partition('.')[0] or 'core'}.{expected.kind}"
    raise cannot_handle(
        gvk, expected.kind, f"converting ({gvk.version}.{gvk.kind}) to ({into}): unknown conversion"
    )


def is_registered(gvk: GroupVersionKind, table: ResourceTable) -> bool:
    """Kinds in upstream's scheme are those of resources and of their lists."""
    return any(
        table.by_kind(*gvk[:2], kind) is not None for kind in (gvk.kind, gvk.kind.removesuffix("List"))
    )


def _unregistered(gvk: GroupVersionKind) -> str:
    return f'no kind "{gvk.kind}" is registered for version "{gvk.api_version}" in scheme "{_SCHEME}"'


def cannot_handle(gvk: GroupVersionKind, kind: str, why: str) -> StatusError:
    return bad_request(f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {kind}: {why}')


def unrecognized(kind: str, why: str, body: bytes) -> StatusError:
    """Even the body's kind could not be read, which is another 400 than that of `cannot_handle`."""
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): {why} ({summary(body)})"
    )


def summary(body: bytes) -> str:
    """At most 30 bytes are shown: as text if the body looks like JSON, else in hexadecimal."""
    if not body:
        return "<empty>"
    end = " ..." if len(body) > SUMMARY_BYTES else ""
    start = body[:SUMMARY_BYTES]
    return (start.decode("utf-8", "replace") if body[:1] == b"{" else start.hex()) + end
