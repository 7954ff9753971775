"""Bodies in protobuf, as typed Go clients send them, and JSON as the answer."""

import json

import pytest
from recorded import DATA
from server_in_process import MAPS, config_map

from kubeskew.apiserver.decoding.protobuf import messages

PROTOBUF = "application/vnd.kubernetes.protobuf"
RECORDED = {
    row["name"]: row
    for row in map(
        json.loads,
        (DATA / "protobuf" / "kubectl-1.36.jsonl").read_text().splitlines(),
    )
}
MADE = {"uid", "controller-uid", "batch.kubernetes.io/controller-uid", "creationTimestamp", "managedFields"}
MADE |= {"clusterIP", "clusterIPs", "nodePort"}
REVIEWS = {"whoami", "can-i", "token"}  # answered, not stored
REFUSED = {"quota"}  # cpu cannot be limited for what asks for none


def field(number: int, value: bytes | str | int) -> bytes:
    """One field below number 16 and 128 bytes: a number, or text or a message with its length."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    data = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2, len(data)]) + data


def message(number: int, data: bytes) -> bytes:
    """A field below number 16 of any length."""
    size, length = len(data), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + data


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    meta = field(1, api_version) + field(2, kind)
    return b"k8s\x00" + field(1, meta) + field(2, raw) + field(3, "") + field(4, "")


def entry(number: int, key: str, value: bytes | str) -> bytes:
    return field(number, field(1, key) + field(2, value))


@pytest.mark.parametrize("name", sorted(RECORDED.keys() - REVIEWS))
async def test_recorded(api, name):
    """A body recorded from kubectl in protobuf has the same outcome as the same object in JSON."""
    row = RECORDED[name]

    sent = await api("POST", row["path"] + "?dryRun=All", bytes.fromhex(row["body"]), content_type=PROTOBUF)

    status = 422 if name in REFUSED else 201
    assert (sent.status, sent.content_type) == (status, "application/json"), sent.body
    as_json = await api.post(row["path"] + "?dryRun=All", row["object"])
    assert without_made(sent.body) == without_made(as_json.body)


def without_made(value):
    """A value without what differs between creations: identities, times, allocated addresses and ports."""
    if isinstance(value, dict):
        return {key: without_made(item) for key, item in value.items() if key not in MADE}
    return [without_made(item) for item in value] if isinstance(value, list) else value


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


async def test_update(api):
    """PUT too, with parameters in the header; what the envelope does not say follows from the request."""
    await api.post(MAPS, config_map("a"))
    body = envelope("", "", field(1, field(1, "a")) + entry(2, "new", "x"))

    updated = await api("PUT", f"{MAPS}/a", body, content_type=f"{PROTOBUF}; charset=x")

    assert updated.status == 200
    assert updated.body["data"] == {"new": "x"}


async def test_scale(api):
    """A Scale, whose resource is another kind's."""
    row = RECORDED["deployment"]
    await api("POST", row["path"], bytes.fromhex(row["body"]), content_type=PROTOBUF)
    body = envelope("autoscaling/v1", "Scale", field(1, field(1, "web")) + field(2, field(1, 7)))

    scaled = await api("PUT", row["path"] + "/web/scale", body, content_type=PROTOBUF)

    assert scaled.body["spec"] == {"replicas": 7}


async def test_delete_options(api):
    """DeleteOptions too; without a body their type does not matter."""
    await api.post(MAPS, config_map("a"))
    await api.post(MAPS, config_map("b"))
    body = envelope("v1", "DeleteOptions", field(4, "Foreground"))

    marked = await api("DELETE", f"{MAPS}/a", body, content_type=PROTOBUF)

    assert marked.body["metadata"]["finalizers"] == ["foregroundDeletion"]
    for content_type in (PROTOBUF, "text/plain"):
        assert (await api("DELETE", f"{MAPS}/b", b"", content_type=content_type)).status in {200, 404}
    other = await api("DELETE", f"{MAPS}/a", envelope("v1", "ConfigMap", b""), content_type=PROTOBUF)
    assert other.status == 400


async def test_kind_without_numbers(api, monkeypatch):
    """A kind of which a field has no number is refused as a media type, rather than losing that field."""
    body = envelope("v1", "ConfigMap", field(1, field(1, "a")))
    known = messages.load_numbers()
    config_map_numbers = {
        name: number for name, number in known["io.k8s.api.core.v1.ConfigMap"].items() if name != "immutable"
    }
    monkeypatch.setattr(
        messages, "load_numbers", lambda: {**known, "io.k8s.api.core.v1.ConfigMap": config_map_numbers}
    )
    messages.is_known.cache_clear()

    answer = await api("POST", MAPS, body, content_type=PROTOBUF)
    messages.is_known.cache_clear()

    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")
    assert (await api("GET", f"{MAPS}/a")).status == 404


async def test_other_kind(api):
    """A body of another kind or version is refused as in JSON, regardless of its message."""
    for api_version, kind in (("v1", "Secret"), ("v2", "ConfigMap")):
        sent = await api("POST", MAPS, envelope(api_version, kind, b"\xff"), content_type=PROTOBUF)
        as_json = await api.post(MAPS, {"apiVersion": api_version, "kind": kind})
        assert (sent.status, sent.body["message"]) == (400, as_json.body["message"])


async def test_broken_message(api):
    """A message that ends too early, in an envelope that does not: the kind is known by then."""
    answer = await api("POST", MAPS, envelope("v1", "ConfigMap", b"\x0a\x05a"), content_type=PROTOBUF)

    why = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: unexpected EOF'
    assert (answer.status, answer.body["message"]) == (400, why)


@pytest.mark.parametrize("depth", [400, 100_000])
async def test_deep_json(api, depth):
    """JSON inside the message may not nest deeper than JSON by itself."""
    raw = b"[" * depth + b"]" * depth
    parameters = message(2, message(1, raw))
    config = message(2, message(1, message(1, field(1, "d.example.com") + parameters)))
    body = (
        b"k8s\x00"
        + field(1, field(1, "resource.k8s.io/v1") + field(2, "DeviceClass"))
        + message(2, message(2, config))
    )

    answer = await api("POST", "/apis/resource.k8s.io/v1/deviceclasses", body, content_type=PROTOBUF)

    why = 'DeviceClass in version "v1" cannot be handled as a DeviceClass: exceeded max depth'
    assert (answer.status, answer.body["message"]) == (400, why)


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"k8s\x00", b"k8s\x00\x0a", b"k8s\x00\x0a\x05ab", b"k8s\x00\x0f", b"k8s\x00" + b"\xff" * 12],
)
async def test_malformed(api, body):
    """A body that is not protobuf, or ends early, is answered 400."""
    answer = await api("POST", MAPS, body, content_type=PROTOBUF)

    assert answer.status == 400
    assert answer.body["message"].startswith(
        "the object provided is unrecognized (must be of type ConfigMap)"
    )
