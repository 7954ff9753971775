"""A component's log says what was forbidden: from that I17 is judged."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubeskew.conformance.evidence.log import ComponentChange, Write
from kubeskew.conformance.invariants.judgement import refused, relations_of_nodes, starts_of_servers

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


NOW = BEGINNING + timedelta(days=1)


def at(seconds: float) -> str:
    return f"{BEGINNING + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S.000Z}"


def started(seconds: float, component: str = "apiserver") -> ComponentChange:
    return ComponentChange(1, at(seconds), component, "started", "1.36", "")


def role(seconds: float, user: str = "system:apiserver") -> Write:
    resource = "clusterroles.rbac.authorization.k8s.io"
    return Write(2, at(seconds), "create", resource, "", "r", "kube-apiserver", {}, user=user)


PODS = 'User "system:node:n" cannot get resource "pods" in API group "" in the namespace "t"'
NODES = 'User "system:node:n" cannot list resource "nodes" in API group "" at the cluster scope'
PATH = 'User "system:node:n" cannot get path "/metrics"'


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (
            [f'pods "a-x7k2p" is forbidden: {PODS}', f'pods "a-9zzqd" is forbidden: {PODS}: no relation'],
            [PODS],
        ),
        ([f"nodes is forbidden: {NODES}", f"forbidden: {PATH}"], [PATH, NODES]),
        (['pods "a" is forbidden: error looking up service account t/b'], []),
        (["all is well"], []),
    ],
)
def test_each_thing_that_is_forbidden_is_reported_once(texts: list[str], found: list[str]) -> None:
    """An object's name, or how often it was asked for, makes no other refusal; admission's are none."""
    assert refused("".join(f"{at(99)} E reflector: {text}\n" for text in texts), [], {}, NOW) == found


@pytest.mark.parametrize(
    ("log", "seconds", "counts"),
    [
        ([started(0)], 9, False),
        ([started(20)], 11, False),
        ([started(0)], 11, True),
        ([started(0), role(25)], 34, False),
        ([started(0), role(25)], 36, True),
        ([started(0), role(25, user="admin")], 34, True),
        ([started(0), role(1), started(60), role(61)], 40, True),
        ([started(0, "scheduler"), role(1)], 5, True),
    ],
)
def test_the_default_roles_of_an_api_server_may_be_on_their_way(
    log: list[ComponentChange | Write], seconds: float, counts: bool
) -> None:
    """Refusals count ten seconds after an API server has started, or written the last of its roles."""
    text = f"{at(seconds)} E reflector: nodes is forbidden: {NODES}\n"
    assert refused(text, starts_of_servers(log), {}, NOW) == ([NODES] if counts else [])


@pytest.mark.parametrize(
    ("node", "why", "seconds", "counts"),
    [
        ("n", "no relationship found between node 'n' and this object", 14, False),
        ("n", "no relationship found between node 'n' and this object", 16, True),
        ("n", "no relationship found between node 'n' and this object", 4, True),
        ("other", "no relationship found between node 'n' and this object", 11, True),
        ("n", "", 11, True),
    ],
)
@pytest.mark.parametrize(
    ("resource", "value"),
    [
        ("pods", {"spec": {"nodeName": "NODE"}}),
        ("resourceslices.resource.k8s.io", {"spec": {"nodeName": "NODE"}}),
        ("noderesourceslices.resource.k8s.io", {"nodeName": "NODE"}),
    ],
)
def test_a_kubelet_may_ask_for_what_was_its_own_and_is_gone(
    node: str, why: str, seconds: float, counts: bool, resource: str, value: dict[str, Any]
) -> None:
    """A node's refusals for want of a relation count five seconds after something of it was deleted."""
    named = json.loads(json.dumps(value).replace("NODE", node))
    gone = Write(2, at(10), "delete", resource, "t", "a", "kubectl", {"metadata": {"name": "a"}, **named})
    text = f'{at(seconds)} E kubelet: pods "a" is forbidden: {PODS}: {why}\n'
    assert refused(text, [], relations_of_nodes([gone]), NOW) == ([PODS] if counts else [])
    other = replace(gone, resource="configmaps")
    assert refused(text, [], relations_of_nodes([other]), NOW) == [PODS]


def test_the_log_of_a_real_program_is_read():
    """Lines of klog have times, too; a message of several lines has the time of the first."""

    def klog(seconds: float) -> str:  # in the machine's zone
        moment = (BEGINNING + timedelta(seconds=seconds)).astimezone()
        return f"E{moment:%m%d %H:%M:%S.%f}   29739 reflector.go:205] watching\n"

    text = f"{klog(5)}nodes is forbidden: {NODES}\n{klog(30)}forbidden: {PATH}\n"
    assert refused(text, starts_of_servers([started(0)]), {}, NOW) == [PATH]


@pytest.mark.parametrize(
    ("program", "counts"), [("kube-apiserver v1.36.3, /bin/kube-apiserver", False), ("", True)]
)
def test_a_real_authorizer_learns_of_bound_pods_by_a_watch(program: str, counts: bool):
    """Want of a relation is excused for five seconds after a pod was bound, if a real API server was there;
    of a pod that had been bound long before it is not."""
    bound = {"metadata": {"name": "a", "uid": "u"}, "spec": {"nodeName": "n"}}
    log = [
        replace(started(0), detail=program),
        Write(2, at(10), "update", "pods", "t", "a", "kube-scheduler", bound),
        Write(3, at(60), "update", "pods", "t", "a", "kubelet", bound),
    ]
    why = "no relationship found between node 'n' and this object"
    found = [
        refused(
            f'{at(s)} E kubelet: pods "a" is forbidden: {PODS}: {why}\n', [], relations_of_nodes(log), NOW
        )
        for s in (11, 61)
    ]
    assert found == [[PODS] if counts else [], [PODS]]
