# ruff: noqa: E501 - upstream's texts stand whole
"""Workloads and PodGroups are validated as their types declare since 1.36, by hand in 1.35."""

import pytest
from server_in_process import Caller, close_server, open_server

from kubeskew.apiserver.registry.scheduling.podgroup import (
    group_errors,
    group_status_errors,
    group_update_errors,
)
from kubeskew.apiserver.registry.scheduling.workload import (
    group_workload_errors,
    group_workload_update_errors,
    workload_errors,
    workload_update_errors,
)

LABEL = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end"
BASIC = {"basic": {}}
TEMPLATE = {"name": "t", "schedulingPolicy": BASIC, "schedulingConstraints": None}
IMMUTABLE = "Invalid value: null: field is immutable"
CLAIM = {"name": "c", "resourceClaimName": "x"}


def _texts(errors) -> list[str]:
    return [str(error)[:150] for error in errors]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"schedulingPolicy": BASIC}, []),
        ({}, ['spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`']),
        (
            {"schedulingPolicy": {"gang": {"minCount": -1}}},
            ["spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"],
        ),
        (
            {"schedulingPolicy": {"gang": {}, "basic": {}}},
            [
                (
                    'spec.schedulingPolicy: Invalid value: "{`basic`, `gang`}": must specify exactly one of: `basic`,'
                    " `gang`"
                ),
                "spec.schedulingPolicy.gang.minCount: Required value",
            ],
        ),
        (
            {"schedulingPolicy": BASIC, "podGroupTemplateRef": {"workload": {"workloadName": "w" * 254}}},
            [
                (
                    f'spec.podGroupTemplateRef.workload.workloadName: Invalid value: "{"w" * 254}": must be no more'
                    " than 253 bytes"
                ),
                "spec.podGroupTemplateRef.workload.podGroupTemplateName: Required value",
            ],
        ),
        (
            {"schedulingPolicy": BASIC, "resourceClaims": [CLAIM, CLAIM, {"name": "d"}]},
            [
                'spec.resourceClaims[1]: Duplicate value: {"name":"c","resourceClaimName":"x"}',
                (
                    'spec.resourceClaims[2]: Invalid value: "": must specify one of: `resourceClaimName`, '
                    "`resourceClaimTemplateName`"
                ),
            ],
        ),
        (
            {"schedulingPolicy": BASIC, "resourceClaims": [{**CLAIM, "name": f"c{n}"} for n in range(5)]},
            ["spec.resourceClaims: Too many: 5: must have at most 4 items"],
        ),
    ],
)
def test_pod_groups(spec, wanted):
    """Each rule of a PodGroup's spec, with upstream's words for declared rules."""
    assert _texts(group_errors(spec)) == [text[:150] for text in wanted]


def test_a_pod_group_keeps_its_spec():
    """Every field is immutable, and no value is shown."""
    old, new = (
        {"spec": {"schedulingPolicy": BASIC}},
        {"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}},
    )
    assert _texts(group_update_errors(new, old)) == [f"spec.schedulingPolicy: {IMMUTABLE}"]


def test_a_status_names_claims_of_the_spec():
    """Claims that the spec does not have are refused, repeats shown whole."""
    claims = [{"name": "c", "resourceClaimName": "x"}, {"name": "c"}, {"name": "d"}]
    new = {"spec": {"resourceClaims": [CLAIM]}, "status": {"resourceClaimStatuses": claims}}
    assert _texts(group_status_errors(new, {})) == [
        (
            'status.resourceClaimStatuses[2].name: Invalid value: "d": must match the name of an entry in '
            "`spec.resourceClaims`"
        ),
        'status.resourceClaimStatuses[1]: Duplicate value: {"name":"c"}',
    ]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"podGroupTemplates": [TEMPLATE]}, []),
        ({}, ["spec.podGroupTemplates: Required value"]),
        (
            {"podGroupTemplates": [TEMPLATE, TEMPLATE]},
            [
                (
                    'spec.podGroupTemplates[1]: Duplicate value: {"name":"t","schedulingPolicy":{"basic":{}},'
                    '"schedulingConstraints":null}'
                )
            ],
        ),
        (
            {"podGroupTemplates": [TEMPLATE], "controllerRef": {"kind": "a/b"}},
            [
                "spec.controllerRef.kind: Invalid value: \"a/b\": may not contain '/'",
                "spec.controllerRef.name: Required value",
            ],
        ),
    ],
)
def test_workloads(spec, wanted):
    """Each rule of a Workload's spec."""
    assert _texts(workload_errors(spec)) == wanted


def test_a_workload_keeps_its_templates():
    """A change of the templates is refused, and none of them is missed besides."""
    errors = workload_update_errors({"spec": {}}, {"spec": {"podGroupTemplates": [TEMPLATE]}})
    assert _texts(errors) == [
        f"spec.podGroupTemplates: {IMMUTABLE}",
        "spec.podGroupTemplates: Required value",
    ]


def test_workloads_of_1_35():
    """A Workload of 1.35 has its groups itself, and a change is reported at paths without the spec."""
    group = {"name": "g", "policy": {"gang": {"minCount": 0}}}
    assert _texts(group_workload_errors({"podGroups": [group, {"name": "G"}]})) == [
        "spec.podGroups[0].policy.gang.minCount: Invalid value: 0: must be greater than zero",
        f'spec.podGroups[1].name: Invalid value: "G": {LABEL}'[:150],
        "spec.podGroups[1].policy: Required value: exactly one of `basic`, `gang` is required",
    ]
    before = {"spec": {"podGroups": [{"name": "g", "policy": BASIC}], "controllerRef": {"name": "a"}}}
    after = {"spec": {"podGroups": [{"name": "h", "policy": BASIC}]}}
    assert _texts(group_workload_update_errors(after, before)) == [
        "controllerRef: Invalid value: null: field is immutable",
        'podGroups: Invalid value: [{"Name":"h","Policy":{"Basic":{},"Gang":null}}]: field is immutable',
    ]


async def test_neither_counts_generations():
    """New Workloads and PodGroups have no generation, and keep the nulls of fields whose gate is off."""
    served = {"scheduling.k8s.io/v1alpha2": True}
    server = await open_server(36, gates={"GenericWorkload": True}, runtime_config=served)
    ask, path = Caller(server), "/apis/scheduling.k8s.io/v1alpha2/namespaces/default"
    template = {**TEMPLATE, "schedulingConstraints": {"topology": [{"key": "zone"}]}}
    made = await ask.post(
        f"{path}/workloads", {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [template]}}
    )
    assert "generation" not in made.body["metadata"]
    assert made.body["spec"]["podGroupTemplates"] == [TEMPLATE]
    made = await ask.post(
        f"{path}/podgroups", {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": BASIC}}
    )
    assert "generation" not in made.body["metadata"]
    await close_server(server)
