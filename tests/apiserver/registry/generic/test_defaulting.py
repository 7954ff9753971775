"""Defaults of built-in kinds: JSON in, JSON out."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.decoding.decoder import decode
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.registry.defaulting import DefaultingContext, apply_defaults

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


def defaulted(api_version: str, kind: str, body: Any, minor: int = 36, **gates: bool) -> Any:
    version = Version(minor)
    chosen = FeatureGates(version, gates)
    catalogue = catalogue_for(version, chosen)
    group, _, name = api_version.rpartition("/")
    resource = catalogue.by_kind(group, name, kind)
    assert resource is not None
    decoded = decode(json.dumps(body).encode(), "application/json", resource, catalogue)
    return apply_defaults(decoded.object, resource.schema, DefaultingContext(Features.of(chosen), NOW))


def container(**fields: Any) -> Any:
    return {"spec": {"containers": [{"name": "c", **fields}]}}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("img", "Always"),
        ("img:latest", "Always"),
        ("img:1", "IfNotPresent"),
        ("host:5000/img", "Always"),
        ("img@sha256:" + "0" * 64, "IfNotPresent"),
        ("Not An Image", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    """No tag is latest, latest is always pulled."""
    made = defaulted("v1", "Pod", container(image=image))
    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_a_pods_requests_follow_its_limits_but_a_templates_do_not() -> None:
    """Only pods are completed so."""
    limits = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}}
    pod = defaulted("v1", "Pod", container(resources=limits))
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m", "memory": "1Gi"}
    deployment = defaulted("apps/v1", "Deployment", {"spec": {"template": container(resources=limits)}})
    template = deployment["spec"]["template"]["spec"]
    assert template["containers"][0]["resources"]["requests"] == {"cpu": "100m"}
    assert "enableServiceLinks" not in template


@pytest.mark.parametrize(
    ("version", "kind", "minor", "action"),
    [
        ("v1alpha1", "MutatingAdmissionPolicyBinding", 36, "Deny"),
        ("v1beta1", "MutatingAdmissionPolicyBinding", 36, None),
        ("v1alpha1", "ValidatingAdmissionPolicyBinding", 33, "Deny"),
        ("v1", "ValidatingAdmissionPolicyBinding", 36, None),
    ],
)
def test_a_bindings_missing_parameters(version: str, kind: str, minor: int, action: str | None) -> None:
    """Only the alpha version decides on what happens without parameters, for both kinds of policies."""
    body = {"spec": {"policyName": "p", "paramRef": {"name": "n"}}}

    made = defaulted(
        f"admissionregistration.k8s.io/{version}", kind, body, minor, AllAlpha=True, AllBeta=True
    )

    assert made["spec"]["paramRef"].get("parameterNotFoundAction") == action


def test_amounts_finer_than_a_thousandth_are_rounded_up() -> None:
    """Amounts finer than a thousandth are rounded up, as SetDefaults_ResourceList does."""
    made = defaulted("v1", "Pod", container(resources={"limits": {"cpu": "1500u"}}))
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2m"}


def test_an_exact_request_gets_a_mode_and_a_count() -> None:
    """In both shapes of a claim."""
    flat = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}}
    made = defaulted("resource.k8s.io/v1", "ResourceClaim", flat)
    wanted = {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}
    assert made["spec"]["devices"]["requests"][0]["exactly"] == wanted
    inline = {"spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "c"}]}}}
    made = defaulted("resource.k8s.io/v1beta1", "ResourceClaim", inline, minor=33)
    assert made["spec"]["devices"]["requests"][0] == {"name": "r", **wanted}


def test_mode_all_has_no_count() -> None:
    """Only an exact count is completed."""
    request = {"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "All"}}
    made = defaulted("resource.k8s.io/v1", "ResourceClaim", {"spec": {"devices": {"requests": [request]}}})
    assert made["spec"]["devices"]["requests"][0]["exactly"] == request["exactly"]


def test_a_taint_is_added_now() -> None:
    """In whole seconds, whether its device is wrapped or not."""
    taint = {"key": "k", "effect": "NoSchedule"}
    spec = {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": "d", "taints": [taint]}]}
    made = defaulted("resource.k8s.io/v1", "ResourceSlice", {"spec": spec})
    assert made["spec"]["devices"][0]["taints"][0]["timeAdded"] == "2026-01-02T03:04:05Z"


def test_a_job_completes_once_unless_it_says_how_often() -> None:
    """`completions` only if `parallelism` is unset too; the labels are the template's."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": []}}
    made = defaulted("batch/v1", "Job", {"spec": {"template": template}})
    assert (made["spec"]["completions"], made["spec"]["parallelism"]) == (1, 1)
    assert made["metadata"]["labels"] == {"a": "b"}
    made = defaulted("batch/v1", "Job", {"spec": {"template": template, "parallelism": 2}})
    assert "completions" not in made["spec"]


def test_defaults_of_a_schema_reach_every_level() -> None:
    """Defaults are made where the parent is there, in lists and maps too."""
    leaf = Schema(Kind.OBJECT, "leaf", fields={"n": Field(Schema(Kind.INTEGER), default=3, has_default=True)})
    root = Schema(
        Kind.OBJECT,
        "root",
        fields={
            "list": Field(Schema(Kind.LIST, items=leaf)),
            "map": Field(Schema(Kind.MAP, items=leaf)),
            "none": Field(leaf, pointer=True),
        },
    )
    obj: Any = {"list": [{}, {"n": 5}], "map": {"k": {}}}
    context = DefaultingContext(Features.of(FeatureGates(Version(36))), NOW)
    assert apply_defaults(obj, root, context) == {"list": [{"n": 3}, {"n": 5}], "map": {"k": {"n": 3}}}
