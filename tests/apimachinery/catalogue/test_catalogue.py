"""The catalogue: what exists at each release, how it is treated, what is served."""

import json
from typing import Any

import pytest
from recorded import DATA

from kubeskew.apimachinery.catalogue import Catalogue, catalogue_for, data, parse_runtime_config
from kubeskew.apimachinery.catalogue.served_resources import version_order
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.resources import STANDARD_VERBS, GroupVersionKind, Resource
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apimachinery.versions import SUPPORTED, Version

API = "io.k8s.api."
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
RELEASES = [version for version in SUPPORTED if not version.preview]


def everything(version: Version) -> Catalogue:
    """All gates on and all API versions served."""
    gates = FeatureGates(version, {"AllAlpha": True, "AllBeta": True})
    return catalogue_for(version, gates, {"api/all": True})


def fields(minor: int, name: str) -> Any:
    return catalogue_for(Version(minor)).definition(API + name).fields


@pytest.mark.parametrize("version", SUPPORTED, ids=str)
def test_every_release_is_complete(version: Version) -> None:
    """Every resource of every release has a type, and its columns and subresources are built."""
    table = everything(version)

    served = [
        resource
        for group, versions in table.groups()
        for v in versions
        for resource in table.resources(group, v)
    ]

    assert len(served) > 60
    for resource in served:
        assert resource.schema.fields["metadata"].schema.name == META + "ObjectMeta"
        assert table.by_kind(resource.group, resource.version, resource.kind) is resource
        assert table.resource(resource.group, resource.version, resource.plural) is resource
        if resource.verbs == STANDARD_VERBS:
            assert table.by_kind(*resource.storage) is not None


@pytest.mark.parametrize("version", SUPPORTED, ids=str)
def test_every_definition_can_be_built(version: Version) -> None:
    """No definition refers to one that its release does not have."""
    definitions = catalogue_for(version).definitions()

    assert all(definitions[name].name == name for name in definitions)
    assert len(definitions) > 450


@pytest.mark.parametrize(
    ("name", "field", "present"),
    [
        ("resource.v1.DeviceClassSpec", "extendedResourceName", range(34, 38)),
        ("core.v1.PodStatus", "extendedResourceClaimStatus", range(34, 38)),
        ("core.v1.PodStatus", "nodeAllocatableResourceClaimStatuses", range(36, 38)),
        ("core.v1.PodResourceClaim", "source", range(26, 31)),
        ("core.v1.PodResourceClaim", "resourceClaimName", range(31, 38)),
        ("core.v1.PodStatus", "resourceClaimStatuses", range(28, 38)),
        ("core.v1.PodSpec", "hostUsers", range(26, 38)),
    ],
)
def test_fields_come_and_go(name: str, field: str, present: range) -> None:
    """A field exists in exactly the releases whose Go types have it."""
    found = []
    for version in RELEASES:
        definition = catalogue_for(version).definitions().get(API + name)
        if definition is not None and field in definition.fields:
            found.append(version.minor)

    assert found == list(present)


@pytest.mark.parametrize(
    ("version", "kind", "present"),
    [
        ("v1alpha1", "PodScheduling", range(26, 27)),
        ("v1alpha2", "PodSchedulingContext", range(27, 31)),
        ("v1alpha3", "ResourceClaim", range(31, 34)),
        ("v1alpha3", "DeviceTaintRule", range(33, 38)),
        ("v1beta1", "ResourceClaim", range(32, 38)),
        ("v1beta2", "ResourceSlice", range(33, 38)),
        ("v1", "DeviceClass", range(34, 38)),
        ("v1", "DeviceTaintRule", range(37, 38)),
    ],
)
def test_kinds_come_and_go(version: str, kind: str, present: range) -> None:
    """`by_kind` knows a kind in exactly the releases that have it, served or not."""
    found = [v.minor for v in RELEASES if catalogue_for(v).by_kind("resource.k8s.io", version, kind)]

    assert found == list(present)


@pytest.mark.parametrize(
    ("group", "kind", "stored"),
    [
        (
            "resource.k8s.io",
            "ResourceClaim",
            {26: "v1alpha1", 27: "v1alpha2", 30: "v1alpha2", 31: "v1alpha3", 32: "v1beta1", 33: "v1beta1"}
            | {34: "v1beta2", 35: "v1", 36: "v1", 37: "v1"},
        ),
        ("resource.k8s.io", "DeviceTaintRule", {33: "v1alpha3", 36: "v1alpha3", 37: "v1beta2"}),
        (
            "networking.k8s.io",
            "ServiceCIDR",
            {30: "v1alpha1", 31: "v1beta1", 32: "v1beta1", 33: "v1beta1", 34: "v1"},
        ),
        ("storage.k8s.io", "VolumeAttributesClass", {30: "v1alpha1", 31: "v1beta1", 35: "v1beta1", 37: "v1"}),
        ("scheduling.k8s.io", "Workload", {35: "v1alpha1", 36: "v1alpha2", 37: "v1beta1"}),
        ("certificates.k8s.io", "PodCertificateRequest", {34: "v1alpha1", 35: "v1beta1", 37: "v1beta1"}),
        ("autoscaling", "HorizontalPodAutoscaler", {26: "v1", 27: "v2", 37: "v2"}),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema", {26: "v1beta2", 29: "v1beta3", 30: "v1"}),
        ("coordination.k8s.io", "LeaseCandidate", {31: "v1alpha1", 32: "v1alpha2", 33: "v1beta1"}),
        ("certificates.k8s.io", "ClusterTrustBundle", {32: "v1alpha1", 33: "v1beta1", 36: "v1beta1"}),
        ("apps", "Deployment", {26: "v1", 37: "v1"}),
    ],
)
def test_storage_versions(group: str, kind: str, stored: dict[int, str]) -> None:
    """A kind is stored in the version that the facts show, whichever version it is served in."""
    for minor, expected in stored.items():
        table = everything(Version(minor))
        of_kind = [
            resource
            for served, versions in table.groups()
            if served == group
            for version in versions
            for resource in table.resources(group, version)
            if resource.kind == kind
        ]

        assert of_kind
        assert {resource.storage for resource in of_kind} == {GroupVersionKind(group, expected, kind)}


def test_versions_that_are_known_but_not_served() -> None:
    """A version that is no longer served can still be decoded, as long as its types are there."""
    table = everything(Version(33))

    assert table.resource("networking.k8s.io", "v1alpha1", "ipaddresses") is None
    assert table.by_kind("networking.k8s.io", "v1alpha1", "IPAddress") is not None
    assert everything(Version(34)).by_kind("networking.k8s.io", "v1alpha1", "IPAddress") is None


def test_events_share_a_store() -> None:
    """Events of both groups are stored as core/v1 under one name."""
    table = catalogue_for(Version(36))
    core, events = table.resource("", "v1", "events"), table.resource("events.k8s.io", "v1", "events")

    assert core
    assert events
    assert core.storage == events.storage == GroupVersionKind("", "v1", "Event")
    assert core.storage_resource == events.storage_resource == "events"
    assert events.schema.name == API + "events.v1.Event"


def test_go_shape() -> None:
    """Value structs are always written, pointers and omitempty are distinguished."""
    deployment = fields(36, "apps.v1.DeploymentSpec")
    pod = fields(36, "core.v1.Pod")
    container = fields(36, "core.v1.Container")
    template = fields(36, "core.v1.PodTemplateSpec")

    assert not deployment["strategy"].omit_empty
    assert deployment["replicas"].pointer
    assert deployment["replicas"].omit_empty
    assert not deployment["selector"].omit_empty
    assert deployment["selector"].required
    assert not pod["status"].omit_empty
    assert not container["resources"].omit_empty
    assert container["name"].required
    assert not template["metadata"].omit_empty
    assert fields(36, "core.v1.EphemeralContainer")["image"].omit_empty
    assert "configMap" in fields(36, "core.v1.Volume")
    assert not fields(36, "core.v1.Event")["firstTimestamp"].omit_empty
    assert not fields(36, "events.v1.Event")["eventTime"].omit_empty


@pytest.mark.parametrize(("minor", "omitted"), [(26, False), (33, False), (34, True), (37, True)])
def test_creation_timestamp(minor: int, omitted: bool) -> None:
    """An unset creation timestamp is null in older releases and left out in newer ones."""
    metadata = catalogue_for(Version(minor)).definition(META + "ObjectMeta")

    assert metadata.fields["creationTimestamp"].omit_empty is omitted
    assert metadata.fields["deletionTimestamp"].pointer


def test_lists_and_merge_keys() -> None:
    """List types, map keys and patch strategies are those of the Go markers."""
    pod = fields(36, "core.v1.PodSpec")
    ports = fields(36, "core.v1.Container")["ports"]

    assert pod["containers"].schema.list_type == "map"
    assert pod["containers"].schema.list_keys == ("name",)
    assert pod["containers"].patch_strategy == ("merge",)
    assert pod["containers"].patch_merge_key == "name"
    assert pod["tolerations"].schema.list_type == "atomic"
    assert pod["volumes"].patch_strategy == ("merge", "retainKeys")
    assert pod["nodeSelector"].schema.map_type == "atomic"
    assert ports.schema.list_keys == ("containerPort", "protocol")
    assert fields(36, "core.v1.ServicePort")["protocol"].default == "TCP"
    assert fields(36, "core.v1.PodSpec")["serviceAccount"].schema.kind is Kind.STRING


def test_atomic_structs() -> None:
    """A struct can be atomic by its type, and a field can say otherwise."""
    definitions = catalogue_for(Version(36)).definitions()

    assert definitions[API + "core.v1.ObjectReference"].map_type == "atomic"
    assert definitions[API + "core.v1.PersistentVolumeSpec"].fields["claimRef"].schema.map_type == "granular"


def test_enums() -> None:
    """A closed string type carries its values, an open one none."""
    assert fields(36, "core.v1.Container")["imagePullPolicy"].schema.enum == (
        "Always",
        "IfNotPresent",
        "Never",
    )
    assert fields(36, "core.v1.Secret")["type"].schema.enum == ()


@pytest.mark.parametrize(
    ("minor", "name", "field", "gates"),
    [
        (35, "resource.v1.DeviceClassSpec", "extendedResourceName", ("DRAExtendedResource",)),
        (36, "resource.v1.DeviceCapacity", "requestPolicy", ("DRAConsumableCapacity",)),
        (31, "resource.v1alpha3.DeviceRequest", "adminAccess", ()),
        (32, "resource.v1beta1.DeviceRequest", "adminAccess", ("DRAAdminAccess",)),
        (28, "core.v1.Container", "restartPolicy", ("SidecarContainers",)),
        (30, "batch.v1.JobSpec", "successPolicy", ("JobSuccessPolicy",)),
        (37, "batch.v1.JobSpec", "successPolicy", ()),
        (37, "core.v1.PodSpec", "nodeName", ()),
        (35, "certificates.v1beta1.PodCertificateRequestSpec", "maxExpirationSeconds", ()),
        (34, "core.v1.VolumeProjection", "podCertificate", ("PodCertificateRequest",)),
    ],
)  # fmt: skip
def test_gates_of_fields(minor: int, name: str, field: str, gates: tuple[str, ...]) -> None:
    """A field carries the gates that its release knows."""
    schema = everything(Version(minor)).definition(API + name)

    assert schema.fields[field].gates == gates


def test_defaults_of_serving() -> None:
    """GA versions are served, betas and alphas are not, with the exceptions of their time."""
    assert dict(catalogue_for(Version(36)).groups())["resource.k8s.io"] == ["v1"]
    assert "resource.k8s.io" not in dict(catalogue_for(Version(33)).groups())
    assert dict(catalogue_for(Version(31)).groups())["flowcontrol.apiserver.k8s.io"] == ["v1", "v1beta3"]
    assert dict(catalogue_for(Version(32)).groups())["flowcontrol.apiserver.k8s.io"] == ["v1"]
    assert catalogue_for(Version(36)).groups()[0] == ("", ["v1"])


def test_runtime_config() -> None:
    """The more specific key wins, and a gate that is off keeps its resource away."""
    gates = FeatureGates(Version(36))
    config = parse_runtime_config("api/all=true,resource.k8s.io/v1beta1=false,batch/v1/jobs=false,policy/v1")

    table = catalogue_for(Version(36), gates, config)

    assert dict(table.groups())["resource.k8s.io"] == ["v1", "v1beta2", "v1alpha3"]
    assert table.resource("batch", "v1", "jobs") is None
    assert table.resource("batch", "v1", "cronjobs") is not None
    assert table.resource("scheduling.k8s.io", "v1alpha2", "workloads") is None
    with_gate = FeatureGates(Version(36), {"GenericWorkload": True})
    assert catalogue_for(Version(36), with_gate, config).resource(
        "scheduling.k8s.io", "v1alpha2", "workloads"
    )
    with pytest.raises(ValueError, match="invalid value api/all=x"):
        parse_runtime_config("api/all=x")


@pytest.mark.parametrize(
    ("minor", "group", "version", "plural", "gate"),
    [
        (33, "resource.k8s.io", "v1alpha3", "devicetaintrules", None),
        (36, "resource.k8s.io", "v1beta2", "devicetaintrules", None),
        (36, "resource.k8s.io", "v1alpha3", "resourcepoolstatusrequests", None),
        (31, "storagemigration.k8s.io", "v1alpha1", "storageversionmigrations", "StorageVersionMigrator"),
        (36, "storagemigration.k8s.io", "v1beta1", "storageversionmigrations", "StorageVersionMigrator"),
    ],
)
def test_gates_of_resources(minor: int, group: str, version: str, plural: str, gate: str | None) -> None:
    """Some resources are served with their gate alone, device taint rules always."""
    config = parse_runtime_config("api/all=true")
    by_default = catalogue_for(Version(minor), FeatureGates(Version(minor)), config)
    gates = FeatureGates(Version(minor), {gate: True} if gate else {})

    assert (by_default.resource(group, version, plural) is None) == (gate is not None)
    assert catalogue_for(Version(minor), gates, config).resource(group, version, plural)


def test_columns_per_release() -> None:
    """Printer columns are those of the release."""

    def names(minor: int, plural: str, group: str = "") -> list[str]:
        resource = catalogue_for(Version(minor)).resource(group, "v1", plural)
        assert resource
        return [column.name for column in resource.columns]

    assert names(34, "serviceaccounts") == ["Name", "Secrets", "Age"]
    assert names(35, "serviceaccounts") == ["Name", "Age"]
    assert names(32, "resourcequotas") == ["Name", "Age", "Request", "Limit"]
    assert names(33, "resourcequotas") == ["Name", "Request", "Limit", "Age"]
    assert "PreemptionPolicy" not in names(31, "priorityclasses", "scheduling.k8s.io")
    assert "PreemptionPolicy" in names(32, "priorityclasses", "scheduling.k8s.io")
    assert names(36, "pods")[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]


def test_subresource_gates() -> None:
    """`pods/resize` came in 1.32, behind its gate."""

    def has_resize(minor: int, **gates: bool) -> bool:
        pods = catalogue_for(Version(minor), FeatureGates(Version(minor), gates)).resource("", "v1", "pods")
        return pods is not None and "resize" in pods.subresources

    assert not has_resize(31, InPlacePodVerticalScaling=True)
    assert not has_resize(32)
    assert has_resize(32, InPlacePodVerticalScaling=True)
    assert has_resize(33)


def test_bodies_of_subresources() -> None:
    """Kinds that are no resource have a schema too; unknown ones have none."""
    table = catalogue_for(Version(36))

    for gvk in (("autoscaling", "v1", "Scale"), ("policy", "v1", "Eviction"), ("", "v1", "PodExecOptions")):
        schema = table.kind_schema(*gvk)
        assert isinstance(schema, Schema)
        assert schema.fields
    assert table.kind_schema("", "v1", "Nothing") is None
    assert table.by_kind("", "v1", "Nothing") is None


@pytest.mark.parametrize(("minor", "before"), [(26, False), (31, False), (32, True), (37, True)])
def test_order_of_groups(minor: int, before: bool) -> None:
    """Groups come by the priority that the release gives them, core first: resource.k8s.io rose in 1.32."""
    groups = [group for group, _ in everything(Version(minor)).groups()]

    assert groups[:3] == ["", "apiregistration.k8s.io", "apps"]
    dra, flows, internal = (
        groups.index(f"{name}.k8s.io") for name in ("resource", "flowcontrol.apiserver", "internal.apiserver")
    )
    assert flows < internal
    assert (dra < flows) == before
    assert (dra > internal) != before


def test_version_order() -> None:
    """GA before beta before alpha, higher first."""
    shuffled = ["v1alpha3", "v2", "v1beta1", "v1", "v1beta2", "v11alpha2", "odd"]

    assert sorted(shuffled, key=version_order) == [
        "v2", "v1", "v1beta2", "v1beta1", "v11alpha2", "v1alpha3", "odd",
    ]  # fmt: skip


def _verbs(resource: Resource) -> dict[str, str]:
    path = f"{resource.group}/{resource.version}/{resource.plural}"
    found = {path: " ".join(sorted(resource.verbs))}
    for name, sub in resource.subresources.items():
        found[f"{path}/{name}"] = " ".join(sorted(sub.verbs))
    return found


@pytest.mark.parametrize("minor", [28, 30, 32, 34, 36])
def test_verbs_match_the_published_paths(minor: int) -> None:
    """With everything on, resources, subresources and verbs are exactly those of upstream's OpenAPI."""
    expected = json.loads((DATA / "openapi_verbs.json").read_text("utf-8"))[f"1.{minor}"]
    table = everything(Version(minor))
    found: dict[str, str] = {}
    for group, versions in table.groups():
        for version in versions:
            for resource in table.resources(group, version):
                found |= _verbs(resource)

    assert found == expected


@pytest.mark.parametrize(
    ("minor", "fields"),
    [
        (26, {"rule", "message"}),
        (27, {"rule", "message", "messageExpression"}),
        (28, {"rule", "message", "messageExpression", "reason", "fieldPath"}),
    ],
)
def test_rules_of_definitions(minor: int, fields: set[str]) -> None:
    """The rules of a definition's schema have the fields of their release, no later ones."""
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ValidationRule"

    assert set(catalogue_for(Version(minor)).definition(name).fields) == fields


@pytest.mark.parametrize("minor", [26, 29, 30])
def test_lists_that_patches_merge_are_merged_by_apply(minor: int) -> None:
    """Until 1.29 the list type follows from the patch strategy, and OpenAPI does not publish it."""
    containers = fields(minor, "core.v1.PodSpec")["containers"].schema
    finalizers = catalogue_for(Version(minor)).definition(f"{META}ObjectMeta").fields["finalizers"].schema
    commands = fields(minor, "core.v1.Container")["command"].schema

    assert (containers.list_type, containers.list_keys) == ("map", ("name",))
    assert (finalizers.list_type, finalizers.list_keys) == ("set", ())
    assert (commands.list_type, commands.list_type_implied) == ("atomic", minor < 30)
    assert containers.list_type_implied is finalizers.list_type_implied is (minor < 30)


@pytest.mark.parametrize(
    ("history", "value"),
    [(7, 7), ("atomic", "atomic"), ([[30, 33, 7]], 7), ([[34, 36, 7]], None), ([], None)],
)
def test_values_of_histories(history: Any, value: Any) -> None:
    """A value that never changed has no spans, another is that of the span with the minor."""
    assert data.at(history, 33) == value


@pytest.mark.parametrize(("spans", "is_there"), [(1, True), ([[26, 33]], True), ([[26, 32]], False)])
def test_presence_by_spans(spans: Any, is_there: bool) -> None:
    """A 1 for the spans stands for all minors."""
    assert data.within(spans, 33) is is_there
