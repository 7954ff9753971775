"""Warnings of pods, services, claims and persistent volumes, by release (pkg/api/*/{warnings,util}.go)."""

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.registry.core.service.warnings import service_warnings
from kubeskew.apiserver.registry.shared.podtemplate.warnings import template_warnings
from kubeskew.apiserver.registry.shared.volumes.warnings import (
    persistent_volume_warnings,
    volume_claim_warnings,
)

FILES = {"name": "b", "items": [{"key": "k", "path": "x"}]}
TWICE = [{"secret": FILES}, {"configMap": FILES}]
PORTS = [{"containerPort": 1, "name": "p", "protocol": "TCP"}, {"containerPort": 2, "name": "p"}]
PREFERRED = {"preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]}}
LATER = "will be invalid in a future Kubernetes release"
PATHS = 'volume "v" (Projected): overlapping paths: "x" (ConfigMap "b") with "x" (Secret "b")'
AGAIN = 'volume "v" (Projected): overlapping paths: "x" (Secret "b") with "x" (Secret "b")'
NAME = (
    'spec.containers[0].ports[1]: duplicate port name "p" with spec.containers[0].ports[0], services and '
    "probes that select ports by name will use spec.containers[0].ports[0]"
)
GRACE = (
    "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
)
NO_POD = "a null labelSelector results in matching no pod"
ZERO = "IPv4 field has octet with leading zero"
FORM = 'is not in RFC 5952 canonical format ("2001:db8::"), which may cause controller apply-loops'
PREFIX = 'netip.ParsePrefix("1.2.3.0/08")'
ARMOR = "container.apparmor.security.beta.kubernetes.io/c"
PROFILE = f't.metadata.annotations[{ARMOR}]: deprecated since v1.30; use the "appArmorProfile" field instead'


def features(minor: int):
    return Features.of(FeatureGates(Version(minor)))


def projected(*sources: Object) -> Object:
    return {"volumes": [{"name": "v", "projected": {"sources": list(sources)}}]}


def container(**fields: object) -> Object:
    return {"containers": [{"name": "c", **fields}]}


@pytest.mark.parametrize(
    ("spec", "before", "minor", "since"),
    [
        (projected(*TWICE), [], 32, [PATHS]),
        (projected(*TWICE, {}), [], 32, [PATHS, 'volume "v" (Projected) has no sources provided']),
        (projected({"secret": FILES}, {"configMap": {"name": "n"}}), [AGAIN], 34, []),
        (container(ports=PORTS), [], 33, [NAME]),
        (
            {"terminationGracePeriodSeconds": -1},
            [],
            27,
            [GRACE],
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "a"}]},
            [],
            28,
            [f"spec.topologySpreadConstraints[0].labelSelector: {NO_POD}"],
        ),
        (
            container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]),
            ['spec.containers[0].env[1].name: duplicate name "A"'],
            28,
            [],
        ),
        (
            {"volumes": [{"name": "v", "flocker": {}}]},
            ["spec.volumes[0].flocker: deprecated in v1.22, support removal is planned in v1.26"],
            27,
            ["spec.volumes[0].flocker: deprecated in v1.22, non-functional in v1.25+"],
        ),
        (
            {"volumes": [{"name": "v", "rbd": {}}]},
            [],
            28,
            ["spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+"],
        ),
    ],
)
def test_warnings_of_pods(spec: Object, before: list[str], minor: int, since: list[str]):
    """A release has the warnings of its own source, the one before it others."""
    shown = [template_warnings({"spec": spec}, "", features(release).pods) for release in (minor - 1, minor)]

    assert shown == [before, since]


def annotated(name: str, **spec: object) -> Object:
    return {
        "metadata": {"annotations": {f"volume.beta.kubernetes.io/{name}": "x"} if name else {}},
        "spec": spec,
    }


CLASS = (
    "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "
    '"storageClassName" attribute instead'
)
OPTIONS = (
    "metadata.annotations[volume.beta.kubernetes.io/mount-options]: deprecated since v1.31; use "
    '"mountOptions" attribute instead'
)
RECYCLE = (
    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "
    "approach is to use dynamic provisioning."
)


@pytest.mark.parametrize(
    ("warnings", "volume", "minor", "since"),
    [
        (volume_claim_warnings, annotated("storage-class"), 28, [CLASS]),
        (persistent_volume_warnings, annotated("storage-class"), 28, [CLASS]),
        (persistent_volume_warnings, annotated("mount-options"), 31, [OPTIONS]),
        (persistent_volume_warnings, annotated("", persistentVolumeReclaimPolicy="Recycle"), 30, [RECYCLE]),
        (
            persistent_volume_warnings,
            annotated("", storageos={}),
            28,
            ["spec.storageOS: deprecated in v1.22, non-functional in v1.25+"],
        ),
        (persistent_volume_warnings, annotated("", capacity={"storage": "100m"}), 36, []),
    ],
)
def test_warnings_of_volumes(warnings, volume: Object, minor: int, since: list[str]):
    """Claims and persistent volumes are warned of from the release whose source does so; none before it."""
    shown = [warnings(volume, features(release).volumes) for release in (minor - 1, minor)]

    assert shown == [[], since]


@pytest.mark.parametrize(("minor", "warned"), [(33, False), (34, True)])
def test_profiles_of_pods(minor: int, warned: bool):
    """Since 1.34 an AppArmor annotation is warned of unless the pod's profile is the same."""
    template = {
        "metadata": {"annotations": {ARMOR: "unconfined"}},
        "spec": container() | {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}},
    }
    assert template_warnings(template, "t", features(minor).pods) == ([PROFILE] if warned else [])


@pytest.mark.parametrize(("minor", "values"), [(32, False), (33, True)])
def test_values_in_preferred_terms(minor: int, values: bool):
    """Since 1.33 values that no label can have are warned of."""
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [PREFERRED]}}
    assert bool(template_warnings({"spec": {"affinity": affinity}}, "", features(minor).pods)) is values


@pytest.mark.parametrize(
    ("field", "text", "old"),
    [
        (
            "externalIPs",
            "1.2.3.04",
            f'IP address was accepted, but {LATER}: ParseAddr("1.2.3.04"): {ZERO}',
        ),
        (
            "externalIPs",
            "2001:db8::0",
            f'IPv6 address "2001:db8::0" {FORM}',
        ),
        (
            "loadBalancerSourceRanges",
            "1.2.3.0/08",
            f'IP prefix was accepted, but {LATER}: {PREFIX}: bad bits after slash: "08"',
        ),
    ],
)
def test_odd_addresses_of_services(field: str, text: str, old: str):
    """Services had texts of their own up to 1.32; 1.26 warned of nothing."""
    service = {"metadata": {}, "spec": {"type": "ClusterIP", "clusterIP": "", field: [text]}}
    shown = [service_warnings(service, features(minor).services) for minor in (26, 27, 32, 33)]

    assert shown[:3] == [[], [f"spec.{field}[0]: {old}"], [f"spec.{field}[0]: {old}"]]
    assert shown[3] not in ([], shown[2])
