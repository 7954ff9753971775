"""Preview releases: a KEP draft's design as a catalogue and a gate table next to those of the minors."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.catalogue.data import store_of
from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.gates import FeatureGates, GateError, GateSpec
from kubeskew.apimachinery.schema import Kind
from kubeskew.apimachinery.versions import SUPPORTED, Version
from kubeskew.apiserver.decoding.protobuf.messages import unnumbered
from kubeskew.releases.catalogue.preview import preview

KEP_3063 = Version(25, "kep3063")
KEP_4381 = Version(29, "kep4381")
DRA = ("resource.k8s.io", "v1alpha2")
V1ALPHA2 = "io.k8s.api.resource.v1alpha2."
CDI = ("cdi.k8s.io", "v1alpha1")
GATE = "DynamicResourceAllocation"
HACK = Path(__file__).parents[3] / "hack" / "catalogue"
DATA = Path(__file__).parents[3] / "apimachinery" / "data" / "previews"
CORE = "io.k8s.api.core.v1."


def test_order() -> None:
    """A preview comes after the release of its minor and before the next one."""
    assert Version(29) < KEP_4381 < Version(30)
    assert all(older < newer for older, newer in pairwise(SUPPORTED))
    assert SUPPORTED[0] == KEP_3063


@pytest.mark.parametrize("version", [KEP_3063, KEP_4381], ids=str)
def test_names(version: Version) -> None:
    """A preview is written as minor and draft, and its gitVersion parses, too."""
    assert str(version) == f"1.{version.minor}+{version.preview}"
    assert version.git_version == f"v1.{version.minor}.0+{version.preview}"
    assert Version.parse(str(version)) == Version.parse(version.git_version) == version


@pytest.mark.parametrize("text", ["1.25", "1.26+kep3063", "1.25+kep9999", "1.29+kep3063"])
def test_unknown_previews_are_refused(text: str) -> None:
    """A version that is no release is refused with a message that names the releases to choose from."""
    with pytest.raises(ValueError, match=r"from 1\.26 to 1\.37, or 1\.25\+kep3063 or 1\.29\+kep4381$"):
        Version.parse(text)


@pytest.mark.parametrize(
    ("gates", "config", "served"),
    [
        ({}, {}, True),
        ({GATE: False}, {}, False),
        ({}, {"cdi.k8s.io/v1alpha1": False}, False),
        ({}, {"api/alpha": False}, False),
        ({GATE: False}, {"cdi.k8s.io/v1alpha1": True}, False),
    ],
)
def test_the_design_is_on_by_default(gates: dict[str, bool], config: dict[str, bool], served: bool) -> None:
    """The draft's API is served although alpha, unless its gate or the runtime config turns it off."""
    catalogue = catalogue_for(KEP_3063, FeatureGates(KEP_3063, gates), config)

    assert (catalogue.resource(*CDI, "resourceclaims") is not None) is served
    assert ("cdi.k8s.io" in dict(catalogue.groups())) is served
    assert catalogue.by_kind(*CDI, "ResourceClaim") is not None


@pytest.mark.parametrize(
    ("gates", "config", "served"),
    [
        ({}, {}, True),
        ({GATE: False}, {}, False),
        ({}, {"resource.k8s.io/v1alpha2": False}, False),
        ({}, {"api/alpha": False}, False),
        ({GATE: False}, {"resource.k8s.io/v1alpha2": True}, False),
    ],
)
def test_semantic_parameters_are_on_by_default(
    gates: dict[str, bool], config: dict[str, bool], served: bool
) -> None:
    """The kinds of classic DRA and the two new ones are served together, or none of them."""
    catalogue = catalogue_for(KEP_4381, FeatureGates(KEP_4381, gates), config)
    plurals = ["podschedulingcontexts", "resourceclaims", "resourceclaimtemplates", "resourceclasses"]
    plurals += ["noderesourceslices", "resourceclaimparameters"]

    assert [catalogue.resource(*DRA, plural) is not None for plural in plurals] == [served] * 6
    assert catalogue.resource(*DRA, "resourceslices") is None


@pytest.mark.parametrize("kind", ["ResourceClass", "ResourceHandle", "ResourceClaimParameters"])
def test_semantic_parameters_extend_the_classic_kinds(kind: str) -> None:
    """A classic type keeps its fields of 1.29 and has one more; nothing of 1.30's designs is there."""
    fields = {
        "ResourceClass": ["parameterTypes", "suitableNodes"],
        "ResourceHandle": ["data", "driverName", "semanticData"],
        "ResourceClaimParameters": ["generatedFrom", "metadata", "parameters", "shareable"],
    }
    foreign = {"structuredParameters", "structuredData", "driverRequests"}
    found = types_of(KEP_4381)[V1ALPHA2 + kind].fields

    assert set(fields[kind]) <= set(found)
    assert not foreign & set(found)
    assert not {"parameterTypes", "semanticData", "parameters"} & set(
        types_of(Version(30))[V1ALPHA2 + kind].fields
    )


def test_guessed_numbers_stand_for_no_field_of_a_release() -> None:
    """In protobuf, a field of a preview has no number under which a release knows another field."""
    released = json.loads((HACK.parents[1] / "apiserver/decoding/protobuf/numbers.json").read_text("utf-8"))
    for path in sorted(DATA.glob("*.json")):
        document = json.loads(path.read_text("utf-8"))
        for name, numbers in document["numbers"].items():
            known = {number: field for field, number in released.get(name, {}).items()}
            gone = set(document["foreign"].get(name, ()))
            for field, number in numbers.items():
                assert known.get(number, field) == field or field in gone, (name, field)


def test_every_field_of_the_preview_has_a_number() -> None:
    """Objects of the preview's kinds can be read from protobuf without losing a field."""
    for kind in ("NodeResourceSlice", "ResourceClaimParameters", "ResourceClass", "ResourceClaim"):
        assert list(unnumbered(types_of(KEP_4381)[V1ALPHA2 + kind])) == []


@pytest.mark.parametrize(
    ("definition", "field"),
    [
        ("io.k8s.api.apps.v1.StatefulSetSpec", "ordinals"),
        (f"{CORE}PodSpec", "schedulingGates"),
        ("io.k8s.api.flowcontrol.v1beta2.LimitedPriorityLevelConfiguration", "lendablePercent"),
        ("io.k8s.api.policy.v1.PodDisruptionBudgetSpec", "unhealthyPodEvictionPolicy"),
        (f"{CORE}PodResourceClaim", "source"),
    ],
)
def test_fields_of_1_26_are_not_there(definition: str, field: str) -> None:
    """Fields that came with 1.26 are unknown in 1.25+kep3063, and known in 1.26 all the same."""
    assert field not in types_of(KEP_3063)[definition].fields
    assert field in types_of(Version(26))[definition].fields


@pytest.mark.parametrize(
    "api_version",
    [
        "resource.k8s.io/v1alpha1",
        "admissionregistration.k8s.io/v1alpha1",
        "authentication.k8s.io/v1alpha1",
        "flowcontrol.apiserver.k8s.io/v1beta3",
    ],
)
def test_groups_of_1_26_are_not_there(api_version: str) -> None:
    """API versions that came with 1.26 are neither served nor known."""
    group, _, version = api_version.partition("/")

    assert (group, version) not in catalogue_for(KEP_3063).registered()
    assert (group, version) in catalogue_for(Version(26)).registered()


def test_types_of_the_draft() -> None:
    """Containers name claims by plain strings; a pod's claims have a name or a template; both are gated."""
    spec = types_of(KEP_3063)[f"{CORE}PodSpec"].fields["resourceClaims"]
    claims = types_of(KEP_3063)[f"{CORE}ResourceRequirements"].fields["claims"]

    assert spec.gates == claims.gates == (GATE,)
    assert spec.schema.items is not None
    assert set(spec.schema.items.fields) == {"name", "resourceClaimName", "template"}
    assert claims.schema.items is types_of(KEP_3063)[f"{CORE}SELinuxOptions"].fields["level"].schema
    assert claims.schema.list_type == "set"
    assert set(types_of(Version(26))[f"{CORE}PodResourceClaim"].fields) == {"name", "source"}


def test_gates() -> None:
    """The design's gate is on, and the others are those of 1.25."""
    gates = FeatureGates(KEP_3063)

    assert gates.spec(GATE) == GateSpec("Alpha", True, False)
    assert gates.spec("JobPodFailurePolicy") == GateSpec("Alpha", False, False)
    assert FeatureGates(KEP_3063, {"SuspendJob": True}).validate() is None
    assert not FeatureGates.parse(KEP_3063, f"{GATE}=false").enabled(GATE)
    assert FeatureGates(KEP_3063, {"AllAlpha": False}).enabled(GATE) is False
    assert not FeatureGates(Version(26)).enabled(GATE)
    with pytest.raises(GateError, match="PodSchedulingReadiness"):
        FeatureGates.parse(KEP_3063, "PodSchedulingReadiness=true")


def test_only_the_base_changes_where_said() -> None:
    """A description changes, adds and takes away fields, and leaves everything else to the base."""
    description: dict[str, Any] = yaml.safe_load((HACK / "previews" / "1.25+kep3063.yaml").read_text("utf-8"))
    description["types"] = {"core/v1": {"Node": {"fields": {"extra": {"type": "*int32", "omitempty": True}}}}}
    description["without"]["fields"] = {"core.v1.Node": ["spec"]}

    made = preview(description)

    assert made["definitions"] == {
        "io.k8s.api.core.v1.Node": {"f": {"extra": {"t": "int32", "o": 1, "p": 1}, "spec": None}}
    }
    assert made["numbers"] == {"io.k8s.api.core.v1.Node": {"extra": 1}}
    assert json.dumps(made["resources"][0]["gates"]) == f'[[26, 26, "{GATE}"]]'


@pytest.mark.parametrize(
    ("resource", "kept"),
    [
        ("resourceclaims.cdi.k8s.io", "resourceclaims.resource.k8s.io"),
        ("resourceclaims.resource.k8s.io", "resourceclaims.resource.k8s.io"),
        ("pods", "pods"),
    ],
)
def test_where_the_log_keeps_a_resource(resource: str, kept: str) -> None:
    """Claims of the draft lie where upstream keys claims of any group."""
    found = catalogue_for(KEP_3063).resource(*CDI, "resourceclaims")

    assert store_of(resource) == kept
    assert found is not None
    assert found.storage_resource == store_of("resourceclaims.cdi.k8s.io")


def test_the_drafted_api_has_no_model_of_resources_and_no_secrets() -> None:
    """The fields of the draft's types are these alone: none describes a resource in terms of Kubernetes or
    refers to a secret, and parameters and attributes are opaque.
    """
    prefix = "io.k8s.api.cdi.v1alpha1."
    found = {
        name.removeprefix(prefix): set(types_of(KEP_3063)[name].fields) - {"apiVersion", "kind", "metadata"}
        for name in types_of(KEP_3063)
        if name.startswith(prefix) and not name.endswith("List")
    }

    assert found == {
        "ResourceClass": {"driverName", "parameters"},
        "ResourceClaim": {"spec", "status"},
        "ResourceClaimSpec": {"resourceClassName", "parameters", "allocationMode"},
        "ResourceClaimStatus": {
            *("phase", "driverName", "scheduling", "attributes", "userLimit", "reservedFor"),
        },
        "SchedulingStatus": {"scheduler", "driver"},
        "SchedulerSchedulingStatus": {"selectedNode", "potentialNodes"},
        "DriverSchedulingStatus": {"unsuitableNodes", "availableOnNodes"},
    }
    spec = types_of(KEP_3063)[f"{prefix}ResourceClaimSpec"].fields["parameters"].schema
    attributes = types_of(KEP_3063)[f"{prefix}ResourceClaimStatus"].fields["attributes"].schema
    assert (spec.kind, spec.fields, attributes.fields) == (Kind.ANY, {}, {})
