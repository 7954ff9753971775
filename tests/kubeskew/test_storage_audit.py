"""Tests the audit of stored objects for another version."""

from itertools import count

import orjson
import pytest

from kubeskew.apimachinery.catalogue.table import catalogue_for
from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.apiextensions.conversion import Converter
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.conformance.storage.audit import audit
from kubeskew.conformance.storage.servers import NoWebhooks, Settings
from kubeskew.conformance.storage.way import audit_way, minors

REVISIONS = count(7)


def entry(resource, api_version, kind, namespace="default", **parts):
    metadata = {"name": "x", "uid": "u", **({"namespace": namespace} if namespace else {})}
    value = orjson.dumps({"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts})
    revision = next(REVISIONS)
    return Entry(Key(resource, namespace, "x"), "uid", revision, revision, value)


def audited(entry, version, **gates):
    return [(each.what, *each.details) for each in audit([entry], settings(version, **gates))]


def settings(version, **gates):
    return Settings(FeatureGates(Version.parse(version), gates), {})


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


def stored_at_26():
    """A claim of 1.26, a pod that has it, and the node that the pod runs on."""
    spec = {"resourceClassName": "g"}
    claim = entry(f"resourceclaims.{GROUP}", f"{GROUP}/v1alpha1", "ResourceClaim", spec=spec)
    claims = [{"name": "c", "source": {"resourceClaimName": "x"}}]
    return [
        claim,
        pod(nodeName="x", resourceClaims=claims, hostnameOverride="a"),
        entry("nodes", "v1", "Node", namespace=""),
    ]


def told(entries, present, *versions, **gates):
    way = [settings(version, **gates) for version in versions]
    found = audit_way(entries, settings(present, **gates), way, nodes=True)
    return [(str(each.to), each.found.key.resource, each.found.what, each.advice) for each in found]


def test_a_way_says_before_which_step_what_has_to_be_done():
    """Claims of 1.26 have to be deleted before 1.27; what a step before it has mended is not told again."""
    on = {"DynamicResourceAllocation": True}
    assert [each[:3] for each in told(stored_at_26(), "1.26", "1.27", "1.28", **on)] == [
        ("1.27", "pods", "lost"),
        ("1.27", f"resourceclaims.{GROUP}", "unreadable"),
    ]
    assert told(stored_at_26()[:1], "1.26", "1.27", **on)[0][3] == "delete it at 1.26"


def test_what_has_to_be_deleted_is_told_at_the_first_step_only():
    """A ServiceCIDR has to be deleted at 1.29, the oldest release that has any; later steps are rid of it."""
    kind = "servicecidrs.networking.k8s.io", "networking.k8s.io/v1alpha1", "ServiceCIDR"
    cidr = entry(*kind, namespace="", spec={"cidrs": ["10.0.0.0/16"]})
    assert told([cidr], "1.29", "1.28", "1.27", "1.26") == [
        ("1.28", "servicecidrs.networking.k8s.io", "unserved", "delete it at 1.29")
    ]


def test_an_object_of_an_older_version_is_to_be_written_anew_while_that_is_read():
    """1.34 does not read v1alpha3; 1.33 does, and writes v1beta1, which 1.34 reads."""
    claim_1 = claim("v1alpha3", {"deviceClassName": "gpu", "count": 1})
    advice = f"kubeskew storage migrate resourceclaims.{GROUP} at 1.33"
    assert (("1.34", f"resourceclaims.{GROUP}", "unreadable", advice)) in told([claim_1], "1.33", "1.34")


def test_nodes_that_a_kubelet_does_not_start_on_have_to_be_drained():
    """The checkpoint of 1.29 with claims in it is nothing that 1.30 reads."""
    on = {"DynamicResourceAllocation": True}
    found = told(stored_at_26()[1:], "1.29", "1.30", **on)
    assert ("1.30", "nodes", "undrained", "drain the node at 1.29 and delete its dra_manager_state") in found
    assert "undrained" not in [what for _, _, what, _ in told(stored_at_26()[2:], "1.29", "1.30", **on)]
    assert "undrained" not in [what for _, _, what, _ in told(stored_at_26()[1:], "1.31", "1.32", **on)]


def test_a_way_goes_minor_by_minor():
    """Up and down, previews by themselves; to where one is there is none."""
    v29 = Version.parse("1.29")
    assert [*map(str, minors(v29, Version.parse("1.32")))] == ["1.30", "1.31", "1.32"]
    assert [*map(str, minors(v29, Version.parse("1.27")))] == ["1.28", "1.27"]
    assert minors(v29, v29) == []


def test_gates_are_taken_along_as_far_as_a_version_has_them():
    """A gate that the version lacks or has locked otherwise is left out; one set by hand has to be right."""
    taken = Settings.taken_along(Version.parse("1.26"), {"DRAAdminAccess": True, "PodIndexLabel": True}, {})
    assert dict(taken.gates.overrides) == {}
    with pytest.raises(ValueError, match="Nonsense"):
        Settings.taken_along(Version.parse("1.26"), {}, {}, {"Nonsense": True})
