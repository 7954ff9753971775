"""Workloads of 1.35 are validated by hand; a PodGroup's status is, besides what its type declares."""

from server_in_process import Caller, close_server, open_server

from kubeskew.apiserver.registry.scheduling.podgroup import group_status_errors
from kubeskew.apiserver.registry.scheduling.workload import (
    group_workload_errors,
    group_workload_update_errors,
)

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end"
)
BASIC = {"basic": {}}
TEMPLATE = {"name": "t", "schedulingPolicy": BASIC, "schedulingConstraints": None}
CLAIM = {"name": "c", "resourceClaimName": "x"}


def _texts(errors) -> list[str]:
    return [str(error)[:150] for error in errors]


def test_a_status_names_claims_of_the_spec():
    """Claims that the spec does not have are refused."""
    claims = [{"name": "c", "resourceClaimName": "x"}, {"name": "d"}]
    new = {"spec": {"resourceClaims": [CLAIM]}, "status": {"resourceClaimStatuses": claims}}
    assert _texts(group_status_errors(new)) == [
        (
            'status.resourceClaimStatuses[1].name: Invalid value: "d": must match the name of an entry in '
            "`spec.resourceClaims`"
        ),
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
