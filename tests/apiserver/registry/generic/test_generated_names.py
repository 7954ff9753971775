"""Names that the server makes: what happens when one is taken."""

import pytest
from server_in_process import MAPS, Caller, close_server, config_map, open_server
from webhook_server import hook_server, patch

HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


def wanting(generated, **extra):
    """A ConfigMap without a name."""
    body = config_map("", generateName=generated, **extra)
    del body["metadata"]["name"]
    return body


def suffixes(server, *given):
    """Make the server draw these suffixes, the last again and again."""
    drawn = iter(given)
    server.services.environment.entropy.suffix = lambda: next(drawn, given[-1])


async def test_another_name_is_drawn(server, api):
    """A name that is taken is tried with other suffixes; the object is what it was before."""
    suffixes(server, "aaaaa", "aaaaa", "bbbbb")
    first = await api.post(MAPS, wanting("x-", data={"a": "1"}))
    second = await api.post(MAPS, wanting("x-", data={"a": "2"}))
    assert first.body["metadata"]["name"] == "x-aaaaa"
    assert (second.status, second.body["metadata"]["name"]) == (201, "x-bbbbb")
    assert second.body["data"] == {"a": "2"}
    assert second.body["metadata"]["uid"] != first.body["metadata"]["uid"]


@pytest.mark.parametrize(("minor", "attempts"), [(29, 1), (36, 8)])
async def test_when_all_are_taken(minor, attempts):
    """Eight attempts from 1.30 on, one before; then the client is asked to try again."""
    server = await open_server(minor)
    drawn = []
    server.services.environment.entropy.suffix = lambda: drawn.append(1) or "aaaaa"
    api = Caller(server)
    await api.post(MAPS, wanting("x-"))
    drawn.clear()
    answer = await api.post(MAPS, wanting("x-"))
    await close_server(server)
    taken = 'configmaps "x-aaaaa" already exists'
    assert (
        answer.body["message"] == f"{taken}, the server was not able to generate a unique name for the object"
    )
    assert answer.body["details"] == {"name": "x-aaaaa", "kind": "configmaps", "retryAfterSeconds": 1}
    assert answer.headers["Retry-After"] == "1"
    assert len(drawn) == attempts


async def test_mutating_admission_is_asked_once(server, api, tmp_path):
    """Each try at a generated name keeps a webhook's patch, applied once; validation sees each try."""
    async with hook_server(tmp_path) as hook:
        hook.answer = lambda review: patch(review, {"op": "add", "path": "/data", "value": {"n": "1"}})
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["configmaps"],
        }
        webhook = {
            "name": "a.example.com",
            "clientConfig": hook.config,
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        await api.post(HOOKS, {"metadata": {"name": "hook"}, "webhooks": [webhook]})
        suffixes(server, "aaaaa", "aaaaa", "bbbbb")
        await api.post(MAPS, wanting("x-"))
        hook.reviews.clear()
        made = await api.post(MAPS, wanting("x-"))
    assert (made.body["metadata"]["name"], made.body["data"]) == ("x-bbbbb", {"n": "1"})
    assert len(hook.reviews) == 1
