"""Bodies in protobuf, as typed Go clients send them, and JSON as the answer."""

import pytest
from server_in_process import MAPS, config_map

from apimachinery import protobuf
from apimachinery.catalogue import catalogue_for
from apimachinery.gates import FeatureGates
from apimachinery.versions import Version

PROTOBUF = "application/vnd.kubernetes.protobuf"


def varint(number: int) -> bytes:
    out = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: bytes | str | int) -> bytes:
    """One field: an integer, or text or a message with its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def entry(number: int, key: str, value: bytes | str) -> bytes:
    return field(number, field(1, key) + field(2, value))


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    meta = field(1, api_version) + field(2, kind)
    return protobuf.MAGIC + field(1, meta) + field(2, raw) + field(3, "") + field(4, "")


@pytest.fixture(scope="module")
def table():
    version = Version(36)
    return catalogue_for(version, FeatureGates(version), {})


async def test_create(api):
    """A ConfigMap in protobuf is one like any other."""
    metadata = field(1, "a") + field(2, "") + field(8, b"") + entry(11, "l", "v")
    body = envelope(
        "v1", "ConfigMap", field(1, metadata) + entry(2, "k", "w") + entry(3, "b", b"\x00\x01\x02")
    )

    created = await api("POST", MAPS, body, content_type=PROTOBUF)

    assert (created.status, created.content_type) == (201, "application/json")
    assert created.body["data"] == {"k": "w"}
    assert created.body["binaryData"] == {"b": "AAEC"}
    assert created.body["metadata"]["labels"] == {"l": "v"}


async def test_delete_options(api):
    """DeleteOptions too."""
    await api.post(MAPS, config_map("a"))
    body = envelope("v1", "DeleteOptions", field(4, "Foreground"))

    marked = await api("DELETE", f"{MAPS}/a", body, content_type=PROTOBUF)

    assert marked.body["metadata"]["finalizers"] == ["foregroundDeletion"]


def test_types(table):
    """Quantities, int-or-string, embedded structs, times, lists and negative numbers."""
    quantity = field(1, "100m")
    resources = field(1, field(1, "cpu") + field(2, quantity))
    port = field(1, 1) + field(2, 0) + field(3, "http")
    probe = field(1, field(2, field(1, "/") + field(2, port))) + field(2, 5)
    container = (
        field(1, "c") + field(2, "i") + field(3, "x") + field(3, "y") + field(8, resources) + field(10, probe)
    )
    volume = field(1, "v") + field(2, field(2, field(1, "")))
    spec = field(1, volume) + field(2, container) + field(4, 30) + field(25, -5)
    metadata = field(1, "p") + field(8, field(1, 1_700_000_000) + field(2, 0))
    pod = table.resource("", "v1", "pods")

    found = protobuf.decode(envelope("v1", "Pod", field(1, metadata) + field(2, spec)), pod.schema)

    assert found["metadata"] == {"name": "p", "creationTimestamp": "2023-11-14T22:13:20Z"}
    made = found["spec"]["containers"][0]
    assert made["command"] == ["x", "y"]
    assert made["resources"] == {"limits": {"cpu": "100m"}}
    assert made["livenessProbe"]["httpGet"] == {"path": "/", "port": "http"}
    assert made["livenessProbe"]["initialDelaySeconds"] == 5
    assert found["spec"]["volumes"] == [{"name": "v", "emptyDir": {"medium": ""}}]
    assert found["spec"]["terminationGracePeriodSeconds"] == 30
    assert found["spec"]["priority"] == -5


def test_every_field_has_a_number(table):
    """No field of a built-in kind is lost for want of a number."""
    tables = protobuf._tables()

    def numbered(name, schema):
        found = set()
        for item in tables[name].values():
            own, embedded = (item, "") if isinstance(item, str) else item
            own = own if own in schema.fields else protobuf._spelled(own, schema)
            if own in schema.fields:
                found.add(own)
            elif embedded in tables:
                found |= numbered(embedded, schema)
        return found

    for name, schema in table.definitions().items():
        if schema.fields and name in tables:
            assert set(schema.fields) - numbered(name, schema) <= {"apiVersion", "kind"}, name


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"k8s\x00\x0a", b"k8s\x00\x0a\x05ab", b"k8s\x00\x0f", b"k8s\x00" + b"\xff" * 12],
)
async def test_malformed(api, body):
    """What is no protobuf, or ends too early, is 400."""
    answer = await api("POST", MAPS, body, content_type=PROTOBUF)

    assert answer.status == 400
    assert answer.body["message"].startswith(
        "the object provided is unrecognized (must be of type ConfigMap)"
    )
