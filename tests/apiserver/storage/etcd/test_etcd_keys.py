"""Keys of etcd and names of the log: every resource of every minor, and values."""

from itertools import pairwise

import pytest

from kubeskew.apimachinery.catalogue.table import catalogue_for
from kubeskew.apimachinery.versions import MINORS, Version
from kubeskew.apiserver.storage.etcd.keys import (
    OPAQUE,
    PREFIXES,
    Range,
    bytes_of,
    object_key,
    object_uid,
    opaque_key,
    prefix_of,
    served,
    stored,
)
from kubeskew.apiserver.storage.records import Key

# Kinds of bodies, which are never stored; componentstatuses are made when they are asked for.
UNSTORED = {
    "bindings", "componentstatuses", "localsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectaccessreviews.authorization.k8s.io", "selfsubjectreviews.authentication.k8s.io",
    "selfsubjectrulesreviews.authorization.k8s.io", "subjectaccessreviews.authorization.k8s.io",
    "tokenreviews.authentication.k8s.io",
}  # fmt: skip
AT_THEIR_GROUP = {
    "apiservices.apiregistration.k8s.io": "apiregistration.k8s.io/apiservices",
    "customresourcedefinitions.apiextensions.k8s.io": "apiextensions.k8s.io/customresourcedefinitions",
}

KEYS = {
    b"/registry/pods/default/web": Key("pods", "default", "web"),
    b"/registry/minions/node-1": Key("nodes", "", "node-1"),
    b"/registry/services/specs/default/kubernetes": Key("services", "default", "kubernetes"),
    b"/registry/services/endpoints/default/kubernetes": Key("endpoints", "default", "kubernetes"),
    b"/registry/controllers/default/rc": Key("replicationcontrollers", "default", "rc"),
    b"/registry/ingress/default/web": Key("ingresses.networking.k8s.io", "default", "web"),
    b"/registry/deployments/default/web": Key("deployments.apps", "default", "web"),
    b"/registry/leases/kube-system/a": Key("leases.coordination.k8s.io", "kube-system", "a"),
    b"/registry/events/default/a.18ecac171f260ff9": Key("events", "default", "a.18ecac171f260ff9"),
    b"/registry/clusterroles/system:node": Key("clusterroles.rbac.authorization.k8s.io", "", "system:node"),
    b"/registry/ipaddresses/10.96.0.1": Key("ipaddresses.networking.k8s.io", "", "10.96.0.1"),
    b"/registry/apiregistration.k8s.io/apiservices/v1.apps": Key(
        "apiservices.apiregistration.k8s.io", "", "v1.apps"
    ),
    b"/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com": Key(
        "customresourcedefinitions.apiextensions.k8s.io", "", "widgets.example.com"
    ),
    b"/registry/example.com/widgets/default/w": Key("widgets.example.com", "default", "w"),
    b"/registry/example.com/gadgets/g": Key("gadgets.example.com", "", "g"),
}  # fmt: skip

OTHERS = (
    b"/registry/masterleases/192.0.2.2",
    b"/registry/peerserverleases/apiserver-abc",
    b"/registry/ranges/servicenodeports",
    b"/registry/ranges/serviceips",
    b"/registry/services/other/default/a",
    b"/registry/pods",
    b"/registry/pods/",
    b"/registry/pods/default/",
    b"/registry/pods/default/a/b",
    b"/registry/pods//a",
    b"/registry/example.com/widgets",
    b"/registry/example.com/wid.gets/a",
    b"/registry/",
    b"/registry/pods/default/\xff",
    b"/registry/pods/default/\0",
    b"compact_rev_key",
    b"/other/pods/default/a",
    b"a b%20\n\xc3\xbc",
    b"\0",
)


@pytest.mark.parametrize("version", MINORS, ids=str)
def test_every_resource_of_every_minor_has_its_prefix(version: Version):
    """Objects of each built-in resource, with and without a namespace, go to a key and back."""
    resources = set(catalogue_for(version).stores()) - UNSTORED
    for resource in sorted(resources):
        if resource in AT_THEIR_GROUP:
            assert prefix_of(resource) == AT_THEIR_GROUP[resource]
        else:
            assert resource in PREFIXES, resource
        for key in (Key(resource, "ns", "a"), Key(resource, "", "a")):
            assert object_key(bytes_of(key)) == key


def test_no_prefix_is_given_twice():
    """Nor is any of them the beginning of another."""
    prefixes = sorted(f"{prefix}/" for prefix in PREFIXES.values())
    assert len(set(prefixes)) == len(PREFIXES)
    assert not [(first, second) for first, second in pairwise(prefixes) if second.startswith(first)]


@pytest.mark.parametrize(("data", "key"), KEYS.items())
def test_objects(data: bytes, key: Key):
    """Keys as a kube-apiserver 1.36.3 was seen to write them."""
    assert object_key(data) == key
    assert bytes_of(key) == data


@pytest.mark.parametrize("data", OTHERS)
def test_other_keys_are_one_resource(data: bytes):
    """They are printable names of a resource that no API has, and come back byte for byte."""
    assert object_key(data) is None
    key = opaque_key(data)
    assert (key.resource, key.namespace) == (OPAQUE, "")
    assert key.name.isprintable()
    assert key.name.isascii()
    assert bytes_of(key) == data


@pytest.mark.parametrize(
    ("value", "uid"),
    [
        (b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u"}}\n', "u"),
        (b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}', ""),
        (b'{"kind":"Pod","apiVersion":"v1","metadata":{}}', None),
        (b'{"kind":"Pod","metadata":{"name":"a"}}', None),
        (b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"', None),
        (b'["kind"]', None),
        (b"k8s\x00\x0a\x09", None),
        (b"k8s:enc:aescbc:v1:key1:\x01", None),
        (b"", None),
    ],
)
def test_objects_are_json(value: bytes, uid: str | None):
    """Values count as objects if they are JSON with kind, apiVersion and name."""
    assert object_uid(value) == uid


@pytest.mark.parametrize("value", [b"{}", b"{}\n", b"{} ", b"{} \n", b"{}\n\n", b"{}\n ", b"\n", b" "])
def test_values_come_back(value: bytes):
    """Whatever a value ends with, etcd's API gives it back."""
    assert served(stored(value)) == value


def test_objects_of_our_servers_are_served_as_a_kube_apiservers():
    """Its JSON ends with a line's end, which our rows do not have."""
    assert served(b'{"a":1}') == b'{"a":1}\n'
    assert stored(b'{"a":1}\n') == b'{"a":1}'


@pytest.mark.parametrize(
    ("key", "end", "resource"),
    [
        (b"/registry/pods/", b"/registry/pods0", "pods"),
        (b"/registry/pods/default/", b"/registry/pods/default0", "pods"),
        (b"/registry/pods/default/a\0", b"/registry/pods0", "pods"),
        (b"/registry/pods/default/a", b"", "pods"),
        (b"/registry/services/specs/", b"/registry/services/specs0", "services"),
        (b"/registry/example.com/widgets/", b"/registry/example.com/widgets0", "widgets.example.com"),
        (b"/registry/pods/", b"/registry/q", None),
        (b"/registry/", b"/registry0", None),
        (b"/registry/services/", b"/registry/services0", None),
        (b"/registry/pods/default/a", b"\0", None),
        (b"\0", b"\0", None),
    ],
)
def test_ranges_are_of_a_resource(key: bytes, end: bytes, resource: str | None):
    """A range that is surely within a resource is read from it alone."""
    assert Range(key, end).resource == resource
