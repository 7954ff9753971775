import pytest

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers.host.network.policies import Allowed, PodRules, Ports, rules_of_pods

WEB, DB, OTHER = "10.244.1.1", "10.244.1.2", "10.244.2.1"


def _pod(name: str, address: str, namespace: str = "ns", **changed: object) -> Object:
    ports = [{"name": "http", "containerPort": 8080}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}]
    return {
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": name}},
        "spec": {"containers": [{"ports": ports}], **changed},
        "status": {"podIP": address, "phase": "Running"},
    }


PODS = [
    _pod("web", WEB),
    _pod("db", DB),
    _pod("other", OTHER, "elsewhere"),
    _pod("web", "127.9.8.7", hostNetwork=True),
]
NAMESPACES = [{"metadata": {"name": name, "labels": {"team": name}}} for name in ("ns", "elsewhere")]
TO_WEB = {"podSelector": {"matchLabels": {"app": "web"}}}
FROM_DB = {"podSelector": {"matchLabels": {"app": "db"}}}
FROM_TEAM = {"namespaceSelector": {"matchLabels": {"team": "elsewhere"}}}
EGRESS = {"policyTypes": ["Egress"]}

CASES: dict[str, tuple[Object, tuple[Allowed, ...] | None, tuple[Allowed, ...] | None]] = {
    "nobody": (TO_WEB, (), None),
    "everybody": (TO_WEB | {"ingress": [{}]}, (Allowed(),), None),
    "pods of the namespace": (TO_WEB | {"ingress": [{"from": [FROM_DB]}]}, (Allowed((DB,)),), None),
    "pods of other namespaces": (TO_WEB | {"ingress": [{"from": [FROM_TEAM]}]}, (Allowed((OTHER,)),), None),
    "both selectors": (TO_WEB | {"ingress": [{"from": [FROM_TEAM | FROM_DB]}]}, (), None),
    "either selector": (
        TO_WEB | {"ingress": [{"from": [FROM_TEAM, FROM_DB]}]},
        (Allowed((DB, OTHER)),),
        None,
    ),
    "a selector that selects nobody": (
        TO_WEB | {"ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "no"}}}]}]},
        (),
        None,
    ),
    "addresses": (
        TO_WEB | {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}]},
        (Allowed(("10.0.0.0/8",), ("10.1.0.0/16",)),),
        None,
    ),
    "addresses of IPv6": (
        TO_WEB | {"ingress": [{"from": [{"ipBlock": {"cidr": "2001:db8::/32"}}]}]},
        (),
        None,
    ),
    "an exception of IPv6": (
        TO_WEB | {"ingress": [{"from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["2001:db8::/32"]}}]}]},
        (Allowed(("0.0.0.0/0",)),),
        None,
    ),
    "ports": (
        TO_WEB | {"ingress": [{"ports": [{"port": 80}, {"port": 90, "endPort": 95}, {"protocol": "UDP"}]}]},
        (Allowed(ports=(Ports("TCP", 80, 80), Ports("TCP", 90, 95), Ports("UDP"))),),
        None,
    ),
    "a named port": (
        TO_WEB | {"ingress": [{"ports": [{"port": "http"}]}]},
        (Allowed(ports=(Ports("TCP", 8080, 8080),)),),
        None,
    ),
    "a name of another protocol": (TO_WEB | {"ingress": [{"ports": [{"port": "dns"}]}]}, (), None),
    "sending": (TO_WEB | EGRESS, None, ()),
    "sending to pods": (TO_WEB | EGRESS | {"egress": [{"to": [FROM_DB]}]}, None, (Allowed((DB,)),)),
    "sending to a named port": (
        TO_WEB | EGRESS | {"egress": [{"to": [FROM_DB], "ports": [{"port": "dns", "protocol": "UDP"}]}]},
        None,
        (Allowed((DB,), ports=(Ports("UDP", 53, 53),)),),
    ),
    "both directions without types": (TO_WEB | {"egress": [{}]}, (), (Allowed(),)),
}


def _policy(spec: Object, namespace: str = "ns") -> Object:
    return {"metadata": {"namespace": namespace, "name": "policy"}, "spec": spec}


@pytest.mark.parametrize("case", CASES)
def test_rules_of_a_pod(case: str) -> None:
    """A selected pod receives and sends what rules allow; in directions without a policy all is allowed."""
    spec, ingress, egress = CASES[case]
    found = rules_of_pods([_policy(spec)], PODS, NAMESPACES)
    assert found == [PodRules(WEB, ingress, egress)]


def test_several_policies() -> None:
    """Rules of all policies that select a pod add up; policies of other namespaces do not matter."""
    policies = [
        _policy(TO_WEB),
        _policy(TO_WEB | {"ingress": [{"from": [FROM_DB]}]}),
        _policy(TO_WEB | {"ingress": [{}]}, "elsewhere"),
    ]
    assert rules_of_pods(policies, PODS, NAMESPACES) == [PodRules(WEB, (Allowed((DB,)),), None)]
    assert rules_of_pods([], PODS, NAMESPACES) == []
