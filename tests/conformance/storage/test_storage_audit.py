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
from kubeskew.conformance.storage.nodes import KeptNode
from kubeskew.conformance.storage.servers import NoWebhooks, Settings
from kubeskew.conformance.storage.way import Move, Present, audit_way, kubelets_on_way, minors, steps_of
from kubeskew.kubelet.dra.claims import ClaimInfo
from kubeskew.kubelet.dra.generations import generation_of
from kubeskew.kubelet.node.config import node_config

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
    '"pkg/api/legacyscheme/scheme.go:30"'
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


def pod_template(**parts):
    template = {"spec": {"containers": CONTAINERS}}
    return entry("podtemplates", "v1", "PodTemplate", template=template, **parts)


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
        (pod(status={}), "1.36", []),
        (pod_template(status={}), "1.36", []),
        (pod_template(spec={}), "1.36", [("lost", "spec: {}")]),
    ],
)
def test_each_object_is_read_as_the_other_server_would(stored, version, expected):
    """An object is unreadable, unserved, or loses what the version does not know, an empty status aside."""
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


def findings(entries, present, *versions, kubelet=None, kept=(), **gates):
    way = [settings(version, **gates) for version in versions]
    before = settings(present, **gates)
    kubelets = {"x": kubelet or before.gates}
    following = kubelets_on_way(kubelets, before.version, [each.version for each in way])
    found = audit_way(entries, before, way, following, kept)
    return [(str(each.to), each.found.key.resource, each.found.what, each.advice) for each in found]


def test_a_way_says_before_which_step_what_has_to_be_done():
    """Claims of 1.26 have to be deleted before 1.27; what a step before it has mended is not listed again."""
    on = {"DynamicResourceAllocation": True}
    assert [each[:3] for each in findings(stored_at_26(), "1.26", "1.27", "1.28", **on)] == [
        ("1.27", "pods", "lost"),
        ("1.27", f"resourceclaims.{GROUP}", "unreadable"),
    ]
    assert findings(stored_at_26()[:1], "1.26", "1.27", **on)[0][3] == "delete it at 1.26"


def test_what_has_to_be_deleted_is_reported_at_the_first_step_only():
    """A ServiceCIDR has to be deleted at 1.29, the oldest release that has any; later steps are rid of it."""
    kind = "servicecidrs.networking.k8s.io", "networking.k8s.io/v1alpha1", "ServiceCIDR"
    cidr = entry(*kind, namespace="", spec={"cidrs": ["10.0.0.0/16"]})
    assert findings([cidr], "1.29", "1.28", "1.27", "1.26") == [
        ("1.28", "servicecidrs.networking.k8s.io", "unserved", "delete it at 1.29")
    ]


def test_an_object_of_an_older_version_is_to_be_written_again_while_that_is_read():
    """1.34 does not read v1alpha3; 1.33 does, and writes v1beta1, which 1.34 reads."""
    claim_1 = claim("v1alpha3", {"deviceClassName": "gpu", "count": 1})
    advice = f"kubeskew storage migrate resourceclaims.{GROUP} at 1.33"
    assert (("1.34", f"resourceclaims.{GROUP}", "unreadable", advice)) in findings([claim_1], "1.33", "1.34")


SUBREQUESTS = {"firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}
DRA = {"DynamicResourceAllocation": True}
WITHOUT_CLASS = (
    'ResourceClaim.resource.k8s.io "x" is invalid: spec.devices.requests[0].deviceClassName: Required value'
)


def test_what_a_release_reads_but_refuses_to_change_is_reported():
    """1.32 reads a claim of subrequests as one that asks for nothing, and refuses each of its updates."""
    subrequests = claim("v1beta1", SUBREQUESTS)
    found = audited(subrequests, "1.32", **DRA)
    assert [what for what, *_ in found] == ["unserved", "lost", "refused"]
    assert found[2] == ("refused", WITHOUT_CLASS)
    assert [what for what, *_ in audited(subrequests, "1.33", **DRA)] == ["unserved"]
    advice = "change it at 1.33 so that 1.32 takes it, or delete it"
    found = findings([subrequests], "1.33", "1.32", **DRA)
    assert [each for each in found if each[2] == "refused"] == [
        ("1.32", f"resourceclaims.{GROUP}", "refused", advice)
    ]


@pytest.mark.parametrize(("version", "refused"), [("1.29+kep4381", True), ("1.30", False)])
def test_a_preview_refuses_by_its_own_rules(version, refused):
    """Generated parameters are those of the preview's draft there, of 1.30 those that shipped."""
    parameters = entry(
        f"resourceclaimparameters.{GROUP}",
        f"{GROUP}/v1alpha2",
        "ResourceClaimParameters",
        generatedFrom={"kind": "K", "name": "n"},
        parameters=[{"metadata": {"selector": "versions["}}],
    )
    found = [what for what, *_ in audited(parameters, version, DynamicResourceAllocation=True)]
    assert ("refused" in found) is refused


def test_what_the_release_before_refuses_with_the_same_words_is_not_reported():
    """A pod without containers is as wrong before the step as behind it."""
    empty = pod(containers=[])
    assert [what for what, *_ in audited(empty, "1.33")] == ["refused"]
    assert findings([empty], "1.34", "1.33") == []


def test_what_is_found_of_an_object_once_it_is_migrated_is_reported_at_the_same_step():
    """A claim of v1beta2 has to be written again for 1.32, which then still does not know its subrequests."""
    found = findings([claim("v1beta2", SUBREQUESTS)], "1.33", "1.32", **DRA)
    assert [what for _, _, what, _ in found] == ["unreadable", "unserved", "lost", "refused"]


def test_nodes_that_a_kubelet_does_not_start_on_have_to_be_drained():
    """The checkpoint of 1.29 with claims in it is nothing that 1.30 reads."""
    on = {"DynamicResourceAllocation": True}
    found = findings(stored_at_26()[1:], "1.29", "1.30", **on)
    assert ("1.30", "nodes", "undrained", "drain the node at 1.29 and delete its dra_manager_state") in found
    assert "undrained" not in [what for _, _, what, _ in findings(stored_at_26()[2:], "1.29", "1.30", **on)]
    assert "undrained" not in [what for _, _, what, _ in findings(stored_at_26()[1:], "1.31", "1.32", **on)]


def kept(*claims):
    """The node, whose kubelet has left its checkpoint of claims as 1.29 writes it, if any are given."""
    handles = ({"driverName": "driver", "data": "{}"},)
    infos = [ClaimInfo("default", name, "u", {"p"}, handles=handles) for name in claims]
    files = (
        {"dra_manager_state": generation_of(FeatureGates(Version.parse("1.29"))).codec.encode(infos)}
        if claims
        else {}
    )
    cpus = b'{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
    return [KeptNode.of(node_config({"name": "x"}), {"cpu_manager_state": cpus, **files})]


def test_the_files_that_a_node_has_count_and_not_what_its_pods_would_put_there():
    """A checkpoint that was removed stops no kubelet; the next one writes it with the pods' claims."""
    on = {"DynamicResourceAllocation": True}
    way = stored_at_26()[1:], "1.29"
    at_29 = ("1.30", "drain the node at 1.29 and delete its dra_manager_state")
    at_30 = ("1.31", "drain the node at 1.30 and delete its dra_manager_state")
    assert drains(*way, "1.30", kept=kept("c"), **on) == [at_29]
    assert drains(*way, "1.30", kept=kept(), **on) == []
    assert drains(*way, "1.30", "1.31", kept=kept(), **on) == [at_30]
    assert drains(*way, "1.30", "1.31", kept=kept("c"), **on) == [at_29, at_30]


def drains(entries, present, *versions, **others):
    found = findings(entries, present, *versions, **others)
    return [(to, advice) for to, _, what, advice in found if what == "undrained"]


NODE = entry("nodes", "v1", "Node", namespace="")
LEVEL = "PodLevelResourceManagers"


def test_files_of_the_resource_managers_that_no_other_kubelet_reads_are_reported():
    """1.37 reads what 1.36 writes with PodLevelResourceManagers; 1.35 does not, nor 1.36 without it."""
    at_36 = FeatureGates(Version.parse("1.36"), {LEVEL: True, "PodLevelResources": True})
    assert drains([NODE], "1.36", "1.35", kubelet=at_36) == [
        ("1.35", "drain the node at 1.36 and delete its cpu_manager_state"),
        ("1.35", "drain the node at 1.36 and delete its memory_manager_state"),
    ]
    assert drains([NODE], "1.36", "1.37", kubelet=at_36) == []
    assert drains([NODE], "1.37", "1.36", "1.35", "1.34") == []


def test_what_kubelets_keep_of_resizing_is_reported_where_1_32_wrote_it_otherwise():
    """With in-place resizing the file of 1.31 stops 1.32, with pods or without; 1.33 has other files."""
    on = {"InPlacePodVerticalScaling": True}
    running = pod(nodeName="x", containers=[{"name": "c", "resources": {"requests": {"cpu": "1"}}}])
    advice = "drain the node at 1.31 and delete its pod_status_manager_state"
    assert drains([NODE, running], "1.31", "1.32", "1.33", "1.34", **on) == [("1.32", advice)]
    assert drains([NODE], "1.31", "1.32", **on) == [("1.32", advice)]
    assert drains([NODE, running], "1.31", "1.32", "1.33") == []
    assert drains([NODE, running], "1.33", "1.32", "1.31") == []


def test_the_gates_and_versions_of_kubelets_are_their_own():
    """Servers with the gate do not make kubelets write what they do not; one ahead waits for the servers."""
    on = {"DynamicResourceAllocation": True}
    without = FeatureGates(Version.parse("1.29"))
    assert drains(stored_at_26()[1:], "1.29", "1.30", kubelet=without, **on) == []
    behind = FeatureGates(Version.parse("1.29"), on)
    assert drains(stored_at_26()[1:], "1.30", "1.31", kubelet=behind, **on) == [
        ("1.31", "drain the node at 1.29 and delete its dra_manager_state")
    ]
    assert drains(stored_at_26()[1:], "1.31", "1.30", "1.29", kubelet=behind, **on) == []


SCHEMA = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}
WIDGETS = "widgets.example.com"


def definition(*versions, strategy="None"):
    """The definition of widgets, whose last version is stored."""
    conversion = {"strategy": strategy}
    if strategy == "Webhook":
        conversion["webhook"] = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x"}}
    listed = [
        {"name": name, "served": True, "storage": name == versions[-1], "schema": SCHEMA} for name in versions
    ]
    names = {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": listed}
    conditions = [{"type": each, "status": "True"} for each in ("NamesAccepted", "Established")]
    stored = entry(
        "customresourcedefinitions.apiextensions.k8s.io",
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        namespace="",
        spec={**spec, "conversion": conversion},
        status={"acceptedNames": names, "conditions": conditions, "storedVersions": [*versions]},
    )
    return stored._replace(key=Key(stored.key.resource, "", WIDGETS))


WIDGET = entry(WIDGETS, "example.com/v1", "Widget", spec={"a": 1})


@pytest.mark.parametrize(
    ("defined", "expected"),
    [
        ([definition("v1")], [("lost", "spec.a: 1")]),
        ([definition("v1", "v2")], [("lost", "spec.a: 1")]),
        (
            [definition("v2")],
            [("unreadable", "request to convert CR from an invalid group/version: example.com/v1")],
        ),
        (
            [definition("v1", "v2", strategy="Webhook")],
            [("webhook", "example.com/v1 to example.com/v2"), ("lost", "spec.a: 1")],
        ),
        ([definition("v1", strategy="Webhook")], [("lost", "spec.a: 1")]),
        ([], [("unserved", f"no accepted definition has {WIDGETS}")]),
    ],
)
def test_custom_resources_are_read_along_their_definitions(defined, expected):
    """The definition in the store says which versions are read, by whom, and what their schemas keep."""
    found = [each for each in audit([*defined, WIDGET], settings("1.34")) if each.key.resource == WIDGETS]
    assert [(each.what, *each.details) for each in found] == expected


def test_what_helps_custom_resources_is_reported():
    """A version that is gone has to be named again, and a webhook is not needed for what is written again."""
    assert findings([definition("v2"), WIDGET], "1.33", "1.34", "1.35") == [
        ("1.34", WIDGETS, "unreadable", "name that version in the definition again")
    ]
    found = findings([definition("v1", "v2", strategy="Webhook"), WIDGET], "1.33", "1.34", "1.35")
    assert ("1.34", WIDGETS, "webhook", f"kubeskew storage migrate {WIDGETS} at 1.33") in found


def test_a_field_is_reported_lost_at_the_first_step_alone():
    """A way shows at each step what that release is the first not to know, with its value."""
    newer = {"name": "c", "image": "x", "lifecycle": {"stopSignal": "SIGUSR1"}}
    stored = pod(containers=[newer], hostnameOverride="abc")
    present, *way = (settings(each) for each in ("1.34", "1.33", "1.32", "1.31"))
    assert [(str(each.to), each.found.details) for each in audit_way([stored], present, way)] == [
        ("1.33", ("spec.hostnameOverride: abc",)),
        ("1.32", ("spec.containers.c.lifecycle.stopSignal: SIGUSR1",)),
    ]


def test_programs_get_fields_whole():
    """A finding has its fields as they were stored, though details are cut; a decoder's words have none."""
    stopped = {"name": "c", "image": "x", "lifecycle": {"stopSignal": "SIGUSR1"}}
    rules = {**stopped, "restartPolicy": "Never", "env": [{"name": "A" * 90, "value": "b"}]}
    [lost] = audit([pod(containers=[rules], hostnameOverride="h" * 63)], settings("1.31"))
    assert {each.path: each.before for each in lost.fields} == {
        "spec.containers.c.lifecycle.stopSignal": "SIGUSR1",
        "spec.hostnameOverride": "h" * 63,
    }
    assert any(detail.endswith("…") for detail in lost.details)
    [unreadable] = audit([NEW], settings("1.33"))
    assert (unreadable.what, unreadable.fields) == ("unreadable", ())


def test_a_way_goes_minor_by_minor():
    """Up and down, previews by themselves; to where one is there is none."""
    v29 = Version.parse("1.29")
    assert [*map(str, minors(v29, Version.parse("1.32")))] == ["1.30", "1.31", "1.32"]
    assert [*map(str, minors(v29, Version.parse("1.27")))] == ["1.28", "1.27"]
    assert minors(v29, v29) == []


def test_gates_are_taken_along_as_far_as_a_version_has_them():
    """A gate that the version does not have yet, or no longer takes, or has locked otherwise is left out; one
    set by hand has to be right."""
    taken = Settings.taken_along(Version.parse("1.26"), {"DRAAdminAccess": True, "PodIndexLabel": True}, {})
    assert dict(taken.gates.overrides) == {}
    gates = {"DRAControlPlaneController": True, "DynamicResourceAllocation": True}  # the first went in 1.32
    taken = Settings.taken_along(Version.parse("1.32"), gates, {})
    assert dict(taken.gates.overrides) == {"DynamicResourceAllocation": True}
    with pytest.raises(ValueError, match="Nonsense"):
        Settings.taken_along(Version.parse("1.26"), {}, {}, {"Nonsense": True})


def test_known_bugs_that_were_switched_by_hand_stay_with_a_kubelet_on_its_way():
    """The kubelets of an audited move have and lack the bugs that the cluster's have and lack by hand."""
    kubelet = FeatureGates(Version.parse("1.28"), bugs={"k8s-117589": True})
    there = Present(Version.parse("1.28"), {}, {}, {"node": kubelet})
    for by_minor in (True, False):
        *_, kubelets = steps_of(there, Move(Version.parse("1.27"), by_minor))
        assert [each["node"].bugs.settings for each in kubelets] == [{"k8s-117589": True}] * 2


def test_a_move_to_where_the_servers_are_has_no_steps():
    """A way that leads nowhere is refused; at once, as what is set by hand may differ, it is audited."""
    there = Present(Version.parse("1.33"), {}, {}, {"node": FeatureGates(Version.parse("1.32"))})
    with pytest.raises(ValueError, match=r"the API servers are at 1\.33 already"):
        steps_of(there, Move(there.version, by_minor=True))
    _, (settings,), (before, after) = steps_of(there, Move(there.version, by_minor=False))
    assert (settings.version, before, after["node"].version) == (there.version, there.kubelets, there.version)
