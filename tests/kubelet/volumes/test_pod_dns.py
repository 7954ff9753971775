"""The resolver configuration of pods."""

import pytest

from kubeskew.kubelet.containers.runtime_service import DNSConfig
from kubeskew.kubelet.volumes.dns import DNSSettings, parse_resolv_conf, pod_dns

HOST = DNSConfig(["192.0.2.1"], ["corp", "svc.cluster.local"], ["edns0"])
SETTINGS = DNSSettings(["10.96.0.10"], "cluster.local", HOST)
CLUSTER = ["default.svc.cluster.local", "svc.cluster.local", "cluster.local"]


def pod_of(**spec):
    return {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, (["10.96.0.10"], [*CLUSTER, "corp"], ["ndots:5"])),
        ({"dnsPolicy": "ClusterFirst", "hostNetwork": True}, HOST),
        ({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True},
         (["10.96.0.10"], [*CLUSTER, "corp"], ["ndots:5"])),
        ({"dnsPolicy": "Default"}, HOST),
        ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["x"]}},
         (["1.1.1.1"], ["x"], [])),
        ({"dnsConfig": {"nameservers": ["1.1.1.1", "10.96.0.10"], "searches": ["x", "corp"],
                        "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]}},
         (["10.96.0.10", "1.1.1.1"], [*CLUSTER, "corp", "x"], ["ndots:2", "edns0"])),
    ],
)  # fmt: skip
def test_policies(spec, expected):
    """The policy says whose servers and searches count; the pod's own are added, each once."""
    found, events = pod_dns(pod_of(**spec), SETTINGS)
    assert ([*map(list, found)], events) == ([*map(list, expected)], [])


@pytest.mark.parametrize(
    ("own", "kept", "event"),
    [
        ({"nameservers": ["1.1.1.1", "2.2.2.2", "3.3.3.3"]}, (3, 4),
         ("Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line "
         "is: 10.96.0.10 1.1.1.1 2.2.2.2")),
        ({"searches": [f"s{n}" for n in range(40)]}, (1, 32), " ".join(f"s{n}" for n in range(28))),
        ({"searches": ["x" * 254]}, (1, 4), "svc.cluster.local cluster.local corp"),
        ({"searches": [str(n) + "x" * 249 for n in range(9)]}, (1, 11), "6" + "x" * 249),
    ],
)  # fmt: skip
def test_limits(own, kept, event):
    """The rest of what resolvers take is left out, with an event that names what is left."""
    found, events = pod_dns(pod_of(dnsConfig=own), SETTINGS)
    assert (len(found.servers), len(found.searches)) == kept
    assert [each.reason for each in events] == ["DNSConfigForming"]
    assert events[0].message.endswith(event)


FALLBACK = (
    'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. '
    'Falling back to "Default" policy.'
)


def test_cluster_without_dns():
    """Without a cluster's server the pod has the node's, with a warning."""
    found, [event] = pod_dns(pod_of(), DNSSettings([], "cluster.local", HOST))
    assert found == HOST
    assert event == ("MissingClusterDNS", f'pod: "p_default(u)". {FALLBACK}')


def test_parsing():
    """Servers add up, the last search line counts, options replace those of their name."""
    servers = "# x\nnameserver 1.1.1.1\nnameserver 2.2.2.2\n"
    text = f"{servers}search a.\nsearch b. . c\noptions ndots:1 x\noptions ndots:2"
    assert parse_resolv_conf(text) == (["1.1.1.1", "2.2.2.2"], ["b", "c"], ["ndots:2", "x"])
