"""Messages along schemas: every kind there and back, the shapes that JSON does not show, hostile bytes."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from protobuf_writing import envelope, field, message, varint
from randomness import examples

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.catalogue import data as catalogue_data
from kubeskew.apimachinery.golang.roundtrip import normalise
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.decoding import protobuf
from kubeskew.apiserver.decoding.protobuf import messages

TABLE = catalogue_for(Version(36))
DEFINITIONS = TABLE.definitions()
KINDS = sorted(
    {
        name
        for name in catalogue_data.load()["kinds"].values()
        if name in DEFINITIONS and DEFINITIONS[name].fields
    }
)
META = "io.k8s.apimachinery.pkg.apis.meta.v1."

TEXT = st.text(max_size=6)
QUANTITIES = st.sampled_from(["0", "1", "100m", "1Gi", "-5", "1500M", "2k"])
INTEGERS = {"int32": st.integers(-(2**31), 2**31 - 1), "int64": st.integers(-(2**63), 2**63 - 1)}
TEXTS = {
    "": TEXT,
    "byte": st.sampled_from(["AA==", "/w==", "aGVsbG8="]),
    "date-time": st.sampled_from(["1969-12-31T23:59:59Z", "2024-02-29T12:00:00Z", "9999-12-31T23:59:59Z"]),
    "micro-time": st.sampled_from(["1969-12-31T23:59:59.500000Z", "2024-02-29T12:00:00.000001Z"]),
}
JSON = st.one_of(TEXT, st.booleans(), st.dictionaries(TEXT, st.integers(0, 9), min_size=1, max_size=2))


@st.composite
def objects(draw, schema, depth=6):
    """Some of the fields of a struct, none of them empty, to a depth."""
    known = sorted(messages.numbered(schema.name) & schema.fields.keys())
    if depth == 0:
        known = [name for name in known if _is_leaf(schema.fields[name].schema)]
    chosen = draw(st.lists(st.sampled_from(known), unique=True, max_size=4)) if known else []
    return {name: draw(value(schema.fields[name].schema, depth - 1)) for name in chosen}


def _is_leaf(schema):
    return schema.kind not in {Kind.OBJECT, Kind.LIST, Kind.MAP}


def value(schema, depth):
    """Any value of a type but Go's zero, which a pointer keeps and another field does not."""
    match schema.kind:
        case Kind.OBJECT:
            return objects(schema, max(depth, 0))
        case Kind.LIST:
            return st.lists(value(schema.items, depth), min_size=1, max_size=3)
        case Kind.MAP:
            return st.dictionaries(TEXT, value(schema.items, depth), min_size=1, max_size=2)
        case Kind.STRING:
            return TEXTS.get(schema.format, st.nothing())
        case Kind.INTEGER:
            return INTEGERS[schema.format]
        case Kind.BOOLEAN:
            return st.booleans()
        case Kind.NUMBER:
            return st.floats(allow_nan=False, allow_infinity=False)
        case Kind.QUANTITY:
            return QUANTITIES
        case Kind.INT_OR_STRING:
            return st.one_of(INTEGERS["int32"], TEXT)
        case _:
            return st.nothing() if schema.name in messages.SCHEMA_UNIONS else JSON


@settings(max_examples=examples(300), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_there_and_back(data):
    """Random objects of every kind come out of their messages as they went in."""
    schema = DEFINITIONS[data.draw(st.sampled_from(KINDS))]
    sent = data.draw(objects(schema))

    found = protobuf.read_object(message(sent, schema), schema)

    assert normalise(found, schema) == normalise(sent, schema)


@settings(max_examples=examples(300), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_hostile_bytes(data):
    """For any bytes there is an object that normalising takes, or a WireError."""
    schema = DEFINITIONS[data.draw(st.sampled_from(KINDS))]
    body = bytearray(message(data.draw(objects(schema)), schema))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body)))
        body[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=4))

    try:
        found = protobuf.read_object(bytes(body), schema)
    except protobuf.WireError:
        return
    normalise(found, schema)


def filled(schema, around=()):
    """A value of a type with all its fields; of a type inside itself, one."""
    if schema in around:
        return {}
    match schema.kind:
        case Kind.OBJECT:
            inside = (*around, schema)
            fields = {
                name: filled(field.schema, inside)
                for name, field in schema.fields.items()
                if name not in TYPE_META or name in messages.numbered(schema.name)
            }
            return {name: value for name, value in fields.items() if value != {} and value != [{}]}
        case Kind.LIST:
            return [filled(schema.items, around)]
        case Kind.MAP:
            item = filled(schema.items, around)
            return {"k": item} if item != {} else {}
        case Kind.ANY if schema.name in messages.SCHEMA_UNIONS:
            return {"JSONSchemaPropsOrBool": True, "JSONSchemaPropsOrArray": [{"type": "x"}]}.get(
                schema.name.rpartition(".")[2], ["x"]
            )
        case _:
            return FILLED_TEXTS[schema.format] if schema.kind is Kind.STRING else FILLED[schema.kind]


TYPE_META = {"apiVersion", "kind"}
FILLED = {
    Kind.INTEGER: 7,
    Kind.BOOLEAN: True,
    Kind.NUMBER: 1.5,
    Kind.QUANTITY: "3",
    Kind.INT_OR_STRING: "http",
    Kind.ANY: {"any": [1]},
}
FILLED_TEXTS = {
    "": "text",
    "byte": "AQI=",
    "date-time": "2024-02-29T12:00:00Z",
    "micro-time": "2024-02-29T12:00:00.000001Z",
    "duration": "1m30s",
}


def bodies(minor):
    """Everything that a request of a release may carry, by its definition's name."""
    table = catalogue_for(Version(minor))
    schemas = [resource.schema for pair in table.registered() for resource in table.resources(*pair)]
    definitions = table.definitions()
    schemas += [definitions[name] for name in catalogue_data.load()["kinds"].values() if name in definitions]
    return {schema.name: schema for schema in schemas}


@pytest.mark.parametrize("minor", range(26, 38))
def test_every_kind_there_and_back(minor):
    """Of every kind of every release, an object with all fields that the release has loses none of them."""
    for name, schema in bodies(minor).items():
        sent = filled(schema)

        assert protobuf.read_object(message(sent, schema), schema) == sent, name


@pytest.mark.parametrize("minor", range(26, 38))
def test_every_kind_is_known(minor):
    """No kind of any release is refused for want of a field's number."""
    missing = {name: list(messages.unnumbered(schema)) for name, schema in bodies(minor).items()}
    assert not any(missing.values()), missing


def test_a_kind_with_an_unnumbered_field_is_unknown():
    """A kind is not known if a field anywhere in it has no number; the fields of an envelope need none."""
    nested = Schema(Kind.OBJECT, "io.k8s.api.core.v1.LocalObjectReference")
    fields = {"name": Field(Schema(Kind.STRING))}
    known = replace(nested, fields=fields)
    unknown = replace(nested, fields={**fields, "new": Field(Schema(Kind.STRING))})

    def config_map(inner):
        return Schema(
            Kind.OBJECT,
            "io.k8s.api.core.v1.ConfigMap",
            fields={
                "apiVersion": Field(Schema(Kind.STRING)),
                "kind": Field(Schema(Kind.STRING)),
                "data": Field(Schema(Kind.MAP, items=Schema(Kind.LIST, items=inner))),
            },
        )

    assert protobuf.is_known(config_map(known))
    assert not protobuf.is_known(config_map(unknown))
    assert list(messages.unnumbered(config_map(unknown))) == ["io.k8s.api.core.v1.LocalObjectReference.new"]


# --- shapes ------------------------------------------------------------------------------------------------


def read(name, raw):
    return protobuf.read_object(raw, DEFINITIONS[name])


def test_embedded():
    """The fields of an embedded message are those of the struct around it, at two levels for a probe."""
    empty_dir = field(2, field(1, "Memory"))
    container = field(10, field(1, field(2, field(1, "/"))) + field(2, 5))
    spec = field(1, field(1, "v") + field(2, empty_dir)) + field(2, container)

    found = read("io.k8s.api.core.v1.PodSpec", spec)

    assert found["volumes"] == [{"name": "v", "emptyDir": {"medium": "Memory"}}]
    assert found["containers"] == [{"livenessProbe": {"httpGet": {"path": "/"}, "initialDelaySeconds": 5}}]


def test_types():
    """Quantities, int-or-string, lists and negative numbers."""
    limits = field(1, field(1, "cpu") + field(2, field(1, "100m")))
    port = field(1, 1) + field(2, 0) + field(3, "http")
    probe = field(1, field(2, field(2, port)))
    container = field(1, "c") + field(3, "x") + field(3, "y") + field(8, limits) + field(10, probe)

    found = read("io.k8s.api.core.v1.PodSpec", field(2, container) + field(25, -5))

    assert found["priority"] == -5
    assert found["containers"] == [
        {
            "name": "c",
            "command": ["x", "y"],
            "resources": {"limits": {"cpu": "100m"}},
            "livenessProbe": {"httpGet": {"port": "http"}},
        }
    ]


def test_bad_quantity():
    """A quantity that is none is refused, as when Go reads it."""
    with pytest.raises(protobuf.WireError, match="quantities must match the regular expression"):
        read("io.k8s.api.core.v1.ResourceQuotaSpec", field(1, field(1, "cpu") + field(2, field(1, "x"))))


def test_messages_that_come_twice():
    """Messages of one field that come twice are merged; of scalars the last counts."""
    meta = field(1, field(1, "a") + field(3, "n")) + field(1, field(1, "b"))

    assert read("io.k8s.api.core.v1.ConfigMap", meta) == {"metadata": {"name": "b", "namespace": "n"}}


def test_zero_values():
    """A zero is kept: whether it is written depends on the field being a pointer."""
    found = read("io.k8s.api.apps.v1.DeploymentSpec", field(1, 0) + field(5, 0))

    assert found == {"replicas": 0, "minReadySeconds": 0}
    normal = normalise(found, DEFINITIONS["io.k8s.api.apps.v1.DeploymentSpec"])
    assert normal["replicas"] == 0
    assert "minReadySeconds" not in normal


def test_packed_and_unpacked():
    """Lists of numbers come in both forms, even mixed."""
    raw = field(4, 1) + field(4, varint(2) + varint(-3)) + field(4, 4)

    assert read("io.k8s.api.core.v1.PodSecurityContext", raw) == {"supplementalGroups": [1, 2, -3, 4]}


def test_lists_in_maps():
    """ExtraValue is a message of items."""
    extra = field(5, field(1, "scopes") + field(2, field(1, "a") + field(1, "b")))

    found = read("io.k8s.api.authorization.v1.SubjectAccessReviewSpec", extra + field(5, field(1, "none")))

    assert found == {"extra": {"scopes": ["a", "b"], "none": []}}


def test_map_without_value():
    """An entry that lacks its value has the type's zero."""
    raw = field(2, field(1, "k")) + field(3, field(1, "b"))

    assert read("io.k8s.api.core.v1.ConfigMap", raw) == {"data": {"k": ""}, "binaryData": {"b": ""}}


def test_schema_unions():
    """A value that a CRD's schema allows in two forms is read from a message with a field for each."""
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    text = field(5, "string")
    raw = (
        field(24, field(1, text))  # items: a schema
        + field(30, field(1, 1))  # additionalProperties: true
        + field(33, field(1, 0))  # additionalItems: false
        + field(32, field(1, "a") + field(2, field(2, "b")))  # dependencies: texts
        + field(8, field(1, b'{"a":[1]}'))
        + field(9, 1.5)
    )

    assert read(name, raw) == {
        "items": {"type": "string"},
        "additionalProperties": True,
        "additionalItems": False,
        "dependencies": {"a": ["b"]},
        "default": {"a": [1]},
        "maximum": 1.5,
    }
    assert read(name, field(24, field(2, text) + field(2, b""))) == {"items": [{"type": "string"}, {}]}
    assert read(name, field(30, field(1, 1) + field(2, text))) == {"additionalProperties": {"type": "string"}}


def test_times():
    """An empty time is Go's zero; seconds of Time are whole, MicroTime has microseconds."""
    meta = field(8, b"") + field(9, field(1, 1_700_000_000) + field(2, 999_999_999))
    lease = field(3, field(1, -1) + field(2, 123_456_789))

    assert read(META + "ObjectMeta", meta) == {
        "creationTimestamp": None,
        "deletionTimestamp": "2023-11-14T22:13:20Z",
    }
    assert read("io.k8s.api.coordination.v1.LeaseSpec", lease) == {
        "acquireTime": "1969-12-31T23:59:59.123456Z"
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-62_135_596_800, None),
        (-62_135_596_799, "0001-01-01T00:00:01Z"),
        (253_402_300_799, "9999-12-31T23:59:59Z"),
    ],
)
def test_extreme_times(seconds, text):
    """The zero time may be sent in full; years have four digits, and there is none after 9999."""
    assert messages.time(field(1, seconds)) == text
    with pytest.raises(protobuf.WireError, match="year outside of range"):
        messages.time(field(1, 253_402_300_800))


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (-2_000_000, "-2ms"),
        (90_500_000_000, "1m30.5s"),
        (3_600_000_000_000, "1h0m0s"),
        (5_000_000_001, "5.000000001s"),
    ],
)
def test_durations(nanos, text):
    """A duration as Go prints it."""
    assert messages.duration(field(1, nanos)) == text


def test_groups_and_unknown_fields_are_skipped():
    """Old groups, nested ones too, and fields of later releases leave no trace."""
    group = (
        varint(900 << 3 | 3) + varint(7 << 3 | 3) + field(1, "x") + varint(7 << 3 | 4) + varint(900 << 3 | 4)
    )
    fixed = varint(901 << 3 | 5) + b"abcd" + varint(902 << 3 | 1) + b"abcdefgh"

    assert read(META + "ObjectMeta", group + field(1, "a") + fixed) == {"name": "a"}


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x0a\x05ab", "unexpected EOF"),
        (b"\x0a", "unexpected EOF"),
        (b"\xff" * 10, "proto: integer overflow"),
        (b"\x0a" + b"\xff" * 9 + b"\x01", "proto: negative length found during unmarshaling"),
        (b"\x08\x01", "proto: wrong wireType = 0 for field Metadata"),
        (b"\x00\x00", "proto: ConfigMap: illegal tag 0 (wire type 0)"),
        (b"\x0c", "proto: ConfigMap: wiretype end group for non-group"),
        (b"\x0e", "proto: illegal wireType 6"),
        (b"\x0b\x0b", "unexpected EOF"),
    ],
)
def test_malformed(raw, text):
    """Go's errors."""
    with pytest.raises(protobuf.WireError) as caught:
        read("io.k8s.api.core.v1.ConfigMap", raw)
    assert str(caught.value) == text


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_does_not_have(number):
    """Refused as Go refuses to write them."""
    with pytest.raises(protobuf.WireError, match="json: unsupported value"):
        read("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps", field(9, number))


def test_deep_schemas():
    """A schema inside itself without end is refused, not a crash."""
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    raw = b""
    for _ in range(5000):
        raw = field(28, raw)

    with pytest.raises(protobuf.WireError, match="exceeded max depth"):
        read(name, raw)


# --- envelopes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "empty data"),
        (b"k8s\x00", "empty body"),
        (b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (b"k8s\x00\x08\x01", "proto: wrong wireType = 0 for field TypeMeta"),
        (b"k8s\x00\x0a\x05ab", "unexpected EOF"),
    ],
)
def test_bad_envelopes(body, text):
    """Each with upstream's text."""
    with pytest.raises(protobuf.WireError) as caught:
        protobuf.read_envelope(body)
    assert str(caught.value) == text


def test_envelope():
    """Kind, version and the message; nothing of it is needed."""
    assert protobuf.read_envelope(envelope("v1", "Pod", b"x")) == ("v1", "Pod", b"x")
    assert protobuf.read_envelope(b"k8s\x00" + field(2, b"x")) == ("", "", b"x")


def test_unregistered_kind():
    """A kind that nobody knows is named."""
    with pytest.raises(protobuf.WireError, match='no kind "Thing" is registered for version "v1"'):
        protobuf.decode_unknown(envelope("v1", "Thing", b""), lambda *_: None)


def test_an_imported_release_has_numbers_of_its_own():
    """Its table decides on the types that it has; all others are those of the releases."""
    own = {"io.k8s.api.core.v1.ConfigMap": {"metadata": 1, "fresh": 9}}

    assert messages.numbers_at("io.k8s.api.core.v1.ConfigMap", own)["fresh"] == 9
    assert messages.numbers_at("io.k8s.api.core.v1.Secret", own)["immutable"] == 5
