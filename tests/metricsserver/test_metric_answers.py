"""The API of the metrics server: paths, shapes, selectors, and the objects that it answers with."""

from datetime import UTC, datetime

import pytest

from kubeskew.apimachinery.errors import StatusError
from kubeskew.metricsserver import api
from kubeskew.metricsserver.access import Trust
from kubeskew.metricsserver.api import (
    NODES,
    PODS,
    Asked,
    Shape,
    asked_for,
    chosen_by,
    node_metrics,
    pod_metrics,
    shape_of,
    table_of,
)
from kubeskew.metricsserver.storage import PodUsage, Usage

BASE = "/apis/metrics.k8s.io/v1beta1"
NOW = datetime(2026, 1, 1, 0, 0, 20, tzinfo=UTC)
AT = int(datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC).timestamp() * 1e9)
USAGE = Usage(123_456_789, 5 << 20, AT, 15_010_000_000)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"{BASE}/nodes", Asked(NODES, "", "")),
        (f"{BASE}/nodes/a", Asked(NODES, "", "a")),
        (f"{BASE}/pods", Asked(PODS, "", "")),
        (f"{BASE}/namespaces/n/pods", Asked(PODS, "n", "")),
        (f"{BASE}/namespaces/n/pods/p", Asked(PODS, "n", "p")),
        (f"{BASE}/namespaces/n/nodes", None),
        (f"{BASE}/pods/p", None),
        (f"{BASE}/nodes/a/status", None),
        (f"{BASE}/deployments", None),
        (BASE, None),
        ("/apis/metrics.k8s.io/v1/nodes", None),
    ],
)
def test_paths(path, expected):
    """Nodes have no namespace; a pod is found in its own."""
    assert asked_for(path) == expected


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", Shape()),
        ("*/*", Shape()),
        ("application/vnd.kubernetes.protobuf, application/json", Shape()),
        (f"{TABLE},{TABLE.replace('v=v1', 'v=v1beta1')},application/json", Shape("Table", "v1")),
        ("application/json;as=Table;v=v9;g=meta.k8s.io, application/json", Shape()),
        (TABLE.replace("Table", "PartialObjectMetadataList"), Shape("PartialObjectMetadata", "v1")),
    ],
)  # fmt: skip
def test_shapes(accept, expected):
    """The first one that there is counts."""
    assert shape_of(accept) == expected


def test_a_shape_that_there_is_not():
    """A client that takes no JSON is refused."""
    with pytest.raises(StatusError) as raised:
        shape_of("application/vnd.kubernetes.protobuf")
    assert (raised.value.code, raised.value.reason) == (406, "NotAcceptable")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, True),
        ({"labelSelector": "app=web"}, True),
        ({"labelSelector": "app!=web"}, False),
        ({"fieldSelector": "metadata.name=a"}, True),
        ({"fieldSelector": "metadata.name!=a"}, False),
        ({"fieldSelector": "metadata.name==b,metadata.namespace=n"}, False),
    ],
)
def test_selectors(query, expected):
    """Labels and fields of the object itself select its metrics."""
    obj = {"metadata": {"name": "a", "namespace": "n", "labels": {"app": "web"}}}
    assert chosen_by(query)(obj) is expected


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"labelSelector": "a in"}, "unable to parse requirement: found '' expected: '('"),
        ({"fieldSelector": "a"}, "invalid field selector: 'a'; can't understand 'a'"),
        (
            {"fieldSelector": "spec.x=1"},
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
def test_selectors_that_are_none(query, why):
    """A bad request says what is wrong."""
    with pytest.raises(StatusError) as raised:
        chosen_by(query)
    assert (raised.value.code, raised.value.message) == (400, why)


def test_the_metrics_of_a_node():
    """Names and labels are the node's, amounts have upstream's units."""
    node = {"metadata": {"name": "a", "uid": "u", "labels": {"x": "y"}}, "spec": {}}
    assert node_metrics(node, USAGE, NOW) == {
        "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:20Z", "labels": {"x": "y"}},
        "timestamp": "2026-01-01T00:00:10Z",
        "window": "15.01s",
        "usage": {"cpu": "123456789n", "memory": "5Mi"},
    }


def test_a_table_of_pods():
    """A row adds up the containers; columns are the amounts that there are."""
    pod = {"metadata": {"name": "p", "namespace": "n"}}
    item = pod_metrics(pod, PodUsage({"a": USAGE, "b": USAGE}, USAGE.at, USAGE.window), NOW)
    found = table_of(PODS, [item], "v1", "Metadata")

    assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "cpu", "memory", "Window"]
    [row] = found["rows"]
    assert row["cells"] == ["p", "246913578n", "10Mi", "15.01s"]
    assert row["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"name": "p", "namespace": "n", "creationTimestamp": "2026-01-01T00:00:20Z"},
    }
    assert table_of(PODS, [], "v1", "None")["columnDefinitions"] is None


def test_health_that_fails():
    """A check that fails is named, without its reason, as any API server does."""
    assert api.health_text("/readyz", {"ping": True}) == (200, "ok")
    status, text = api.health_text("/readyz", {"ping": True, "metric-storage-ready": False})
    assert status == 500
    assert text == "[+]ping ok\n[-]metric-storage-ready failed: reason withheld\nreadyz check failed\n"


def test_whom_the_api_server_trusts():
    """The ConfigMap's lists are JSON; what it does not have is empty."""
    data = {"client-ca-file": "A", "requestheader-username-headers": '["X-Remote-User"]'}
    assert Trust.of(data) == Trust("A", "", ("X-Remote-User",), (), (), (), ())
