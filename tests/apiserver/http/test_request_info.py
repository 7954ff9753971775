"""RequestInfo is read from a request's path: upstream's table of cases, in our own words."""

import pytest

from kubeskew.apiserver.http.request import parse_info, parse_query

CASES = [
    ("GET", "/api/v1/pods", "list", "", "v1", "pods", "", "", ""),
    ("GET", "/api/v1/pods?watch=true", "watch", "", "v1", "pods", "", "", ""),
    ("GET", "/api/v1/pods?watch", "watch", "", "v1", "pods", "", "", ""),
    ("GET", "/api/v1/pods?watch=false", "list", "", "v1", "pods", "", "", ""),
    ("GET", "/api/v1/pods?watch=maybe", "watch", "", "v1", "pods", "", "", ""),
    ("GET", "/api/v1/namespaces/n/pods/p", "get", "", "v1", "pods", "", "n", "p"),
    ("GET", "/api/v1/namespaces/n/pods/p?watch=1", "get", "", "v1", "pods", "", "n", "p"),
    ("GET", "/api/v1/namespaces/n/pods/p/status", "get", "", "v1", "pods", "status", "n", "p"),
    ("POST", "/api/v1/namespaces/n/pods/p/binding", "create", "", "v1", "pods", "binding", "n", "p"),
    ("GET", "/api/v1/namespaces", "list", "", "v1", "namespaces", "", "", ""),
    ("GET", "/api/v1/namespaces/n", "get", "", "v1", "namespaces", "", "n", "n"),
    ("PUT", "/api/v1/namespaces/n/finalize", "update", "", "v1", "namespaces", "finalize", "n", "n"),
    ("GET", "/api/v1/watch/pods", "watch", "", "v1", "pods", "", "", ""),
    ("GET", "/api/v1/watch/namespaces/n/pods/p", "watch", "", "v1", "pods", "", "n", "p"),
    ("PATCH", "/apis/a/v1/namespaces/n/things/d", "patch", "a", "v1", "things", "", "n", "d"),
    ("DELETE", "/apis/a/v1/namespaces/n/things", "deletecollection", "a", "v1", "things", "", "n", ""),
    ("DELETE", "/apis/a/v1/namespaces/n/things/d", "delete", "a", "v1", "things", "", "n", "d"),
    ("GET", "/api/v1/nodes/n1", "get", "", "v1", "nodes", "", "", "n1"),
    ("GET", "/api/v1/nodes?fieldSelector=metadata.name%3Dn1", "list", "", "v1", "nodes", "", "", "n1"),
    ("HEAD", "/api/v1/nodes/n1", "get", "", "v1", "nodes", "", "", "n1"),
    ("OPTIONS", "/api/v1/nodes/n1", "", "", "v1", "nodes", "", "", "n1"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[f"{case[0]} {case[1]}" for case in CASES])
def test_resource_paths(case):
    """Verb, group, version, resource, subresource, namespace and name of resource paths."""
    method, target, *expected = case
    path, _, query = target.partition("?")

    info = parse_info(method, path, parse_query(query))

    found = [info.verb, info.group, info.version, info.resource, info.subresource, info.namespace, info.name]
    assert found == expected
    assert info.is_resource


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/x/y/z"]
)
def test_other_paths(path):
    """Everything that names no resource is a plain path, its verb the method."""
    info = parse_info("GET", path, {})

    assert not info.is_resource
    assert info.verb == "get"


def test_selectors_belong_to_resources():
    """A path that is no resource has none, however the method is called."""
    query = {"fieldSelector": ["metadata.name=a"], "watch": ["true"]}
    info = parse_info("LIST", "/healthz", query)
    assert (info.is_resource, info.verb, info.name, info.field_selector) == (False, "list", "", "")
