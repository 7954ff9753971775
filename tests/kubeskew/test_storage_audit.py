"""Tests the audit of stored objects for another version."""

import orjson
import pytest

from kubeskew.apimachinery.catalogue.table import catalogue_for
from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.apiextensions.conversion import Converter
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.cli.storage.audit import NoWebhooks, audit


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


async def test_a_conversion_that_an_audit_would_need_fails_as_a_webhook_that_does_not_answer():
    """The converter answers the error of a failed call: a 500 that says why."""
    converter = Converter(NoWebhooks(), SeededEntropy(0))
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/convert"}}
    target = catalogue_for(Version.parse("1.36")).by_kind("", "v1", "ConfigMap")
    assert target is not None
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "x"}}
    with pytest.raises(StatusError) as raised:
        await converter.convert(webhook, [widget], target)
    assert raised.value.code == 500
    assert raised.value.message == (
        "conversion webhook for example.com/v1, Kind=Widget failed: "
        "an audit of stored objects calls no webhooks"
    )
