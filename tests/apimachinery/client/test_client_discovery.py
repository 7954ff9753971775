"""Clients read what a server serves from aggregated and from plain discovery documents."""

import orjson
import pytest

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.controllers.framework.discovery import served_resources

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


class Documents:
    """A transport that answers with prepared documents by path; others are not found."""

    def __init__(self, documents):
        self.documents = documents

    async def __call__(self, request):
        document = self.documents.get(request.target)
        return Document(404, errors.unknown_path().status()) if document is None else Document(200, document)

    async def close(self):
        pass


class Document:
    def __init__(self, status, content):
        self.status = status
        self.headers = {"Content-Type": "application/json"}
        self.content = orjson.dumps(content)

    async def body(self):
        return self.content

    async def close(self):
        pass


def aggregated(name, *versions):
    return {"metadata": {"name": name}, "versions": list(versions)}


def version(name, *plurals):
    resources = [
        {
            "resource": plural,
            "responseKind": {"group": "", "version": "", "kind": plural.title()},
            "scope": "Namespaced",
            "verbs": ["get", "list"],
        }
        for plural in plurals
    ]
    return {"version": name, "resources": resources}


def described(found):
    return {(one.ref.group, one.ref.version, one.ref.plural, one.preferred) for one in found}


async def test_aggregated_documents_take_two_requests(clock):
    """The first version that has a resource is preferred, later ones are reported too."""
    core = {"kind": "APIGroupDiscoveryList", "items": [aggregated("", version("v1", "pods"))]}
    groups = {
        "kind": "APIGroupDiscoveryList",
        "items": [aggregated("g", version("v1", "as"), version("v1beta1", "as", "bs"))],
    }
    found = await served_resources(APIClient(Documents({"/api": core, "/apis": groups}), clock=clock))

    assert described(found) == {
        ("", "v1", "pods", True),
        ("g", "v1", "as", True),
        ("g", "v1beta1", "as", False),
        ("g", "v1beta1", "bs", True),
    }
    assert found[0].verbs == {"get", "list"}
    assert (found[0].ref.kind, found[0].ref.namespaced) == ("Pods", True)


async def test_plain_documents_of_older_servers(clock):
    """Group by group; subresources are skipped, groups that fail are left out."""
    pods = {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list"]}
    documents = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/api/v1": {"resources": [pods, {**pods, "name": "pods/status"}]},
        "/apis": {
            "kind": "APIGroupList",
            "groups": [
                {
                    "name": "g",
                    "versions": [{"version": "v1beta1"}, {"version": "v1"}],
                    "preferredVersion": {"version": "v1"},
                },
                {"name": "broken", "versions": [{"version": "v1"}]},
            ],
        },
        "/apis/g/v1": {"resources": [{**pods, "name": "as"}]},
        "/apis/g/v1beta1": {"resources": [{**pods, "name": "as"}]},
    }
    found = await served_resources(APIClient(Documents(documents), clock=clock))

    assert described(found) == {
        ("", "v1", "pods", True),
        ("g", "v1", "as", True),
        ("g", "v1beta1", "as", False),
    }
