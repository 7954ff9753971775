"""ResourceSlices as large as the limits allow (KEP-4815, "Scalability")."""

import math
from typing import Any

import pytest
from protobuf_writing import envelope, message
from server_in_process import Caller

from kubeskew.apimachinery.catalogue.table import catalogue_for
from kubeskew.apimachinery.versions import Version

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def text_of(number: int, length: int) -> str:
    return "x" * (length - 4) + f"{number:04}"


def qualified(number: int) -> str:
    return f"{text_of(0, 249)}.com/{text_of(number, 63)}"


def largest(**content: Any) -> Any:
    """Returns a slice as upstream's test/integration/dra makes the largest there are."""
    labels = {qualified(number): text_of(0, 63) for number in range(10)}
    pool = {"name": "x" * 253, "generation": math.inf, "resourceSliceCount": math.inf}
    pool = {name: 2**63 - 1 if value == math.inf else value for name, value in pool.items()}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": text_of(1, 253), "labels": labels, "annotations": labels},
        "spec": {"driver": "x" * 63, "pool": pool, **content},
    }


def counters(number: int) -> Any:
    return {text_of(each, 63): {"value": "80Gi"} for each in range(number)}


def device(number: int, *, taints: int, sets: int, consumed: int = 32) -> Any:
    taint = {"key": qualified(number), "value": text_of(number, 63), "effect": "NoSchedule"}
    return {
        "name": text_of(number, 63),
        "attributes": {
            f"{text_of(each, 63)}/{text_of(each, 32)}": {"string": text_of(each, 63)} for each in range(32)
        },
        "nodeName": text_of(0, 253),
        "taints": [{**taint, "timeAdded": "2024-02-29T12:00:00Z"}] * taints,
        "consumesCounters": [
            {"counterSet": text_of(each, 63), "counters": counters(consumed)} for each in range(sets)
        ],
    }


SCHEMA = next(
    resource.schema
    for resource in catalogue_for(Version(36)).resources("resource.k8s.io", "v1")
    if resource.plural == "resourceslices"
)
SETS = [{"name": text_of(number, 63), "counters": counters(32)} for number in range(8)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            {
                "perDeviceNodeSelection": True,
                "devices": [device(number, taints=16, sets=2) for number in range(64)],
            },
            1_129_821,
        ),
        ({"nodeName": text_of(0, 253), "sharedCounters": SETS}, 35_700),
    ],
    ids=["devices", "counters"],
)
async def test_the_largest_slices(api: Caller, content: Any, said: int) -> None:
    """The largest slices are taken, and in protobuf are as large as the KEP says, to two in a hundred.

    The larger one has 16 taints a device and 4096 counters: the KEP says 4 and 2048, and counted these.
    """
    given = largest(**content)
    body = envelope("resource.k8s.io/v1", "ResourceSlice", message(given, SCHEMA))
    stored = await api("POST", SLICES, body, content_type=PROTOBUF)
    assert stored.status == 201, stored.body
    assert stored.body["spec"] == given["spec"]
    kept = {name: value for name, value in stored.body.items() if name not in {"apiVersion", "kind"}}
    assert len(message(kept, SCHEMA)) == pytest.approx(said, rel=0.02)
