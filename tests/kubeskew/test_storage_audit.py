"""Tests the audit of stored objects for another version."""

import orjson
import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.cli.storage.audit import audit


def entry(resource, api_version, kind, namespace="default", **parts):
    metadata = {"name": "x", **({"namespace": namespace} if namespace else {})}
    value = orjson.dumps({"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts})
    return Entry(Key(resource, namespace, "x"), "uid", 7, 7, value)


def audited(entry, version, **gates):
    parsed = Version.parse(version)
    found = audit([entry], parsed, FeatureGates(parsed, gates))
    return [(each.what, *each.details) for each in found]


GROUP = "resource.k8s.io"
UNKNOWN = (
    'no kind "ResourceClaim" is registered for version "resource.k8s.io/v1" in scheme '
    '"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"'
)
WRONG = (
    "unable to decode the stored object: json: cannot unmarshal string into Go struct field "
    "PodSpec.spec.containers of type []v1.Container"
)
CONTAINERS = [{"name": "c", "image": "x"}]


def claim(version, request):
    spec = {"devices": {"requests": [{"name": "r", **request}]}}
    return entry(f"resourceclaims.{GROUP}", f"{GROUP}/{version}", "ResourceClaim", spec=spec)


def pod(**spec):
    return entry("pods", "v1", "Pod", spec={"containers": CONTAINERS, **spec})


NEW = claim("v1", {"exactly": {"deviceClassName": "gpu", "count": 1}})
TOLERANT = claim("v1beta1", {"deviceClassName": "gpu", "count": 1, "tolerations": []})


@pytest.mark.parametrize(
    ("stored", "version", "expected"),
    [
        (NEW, "1.33", [("unreadable", UNKNOWN)]),
        (NEW, "1.36", []),
        (TOLERANT, "1.32", [("unserved",), ("lost", "spec.devices.requests.r.tolerations: []")]),
        (pod(hostnameOverride="abc"), "1.34", []),
        (pod(hostnameOverride="abc"), "1.33", [("lost", "spec.hostnameOverride: abc")]),
        (pod(containers="none"), "1.36", [("unreadable", WRONG)]),
        (entry("widgets.example.com", "example.com/v1", "Widget", spec={"a": 1}), "1.30", []),
    ],
)
def test_each_object_is_read_as_the_other_server_would(stored, version, expected):
    """An object is unreadable, unserved, or loses what the version does not know, but for custom ones."""
    assert audited(stored, version) == expected
