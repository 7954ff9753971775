"""Webhook configurations, policies and bindings are validated, in upstream's words."""

import pytest
import yaml
from recorded import DATA
from server_in_process import Caller, close_server, open_server

CASES = yaml.safe_load((DATA / "admission_configurations.yaml").read_text())
GROUP = "/apis/admissionregistration.k8s.io/v1"
RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods"]}
HOOK = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://example.com/x"},
    "rules": [RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}


@pytest.fixture
async def call():
    server = await open_server()
    yield Caller(server)
    await close_server(server)


async def causes(call, plural, kind, body):
    obj = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "x"}, **body}
    answer = await call.post(f"{GROUP}/{plural}?dryRun=All", obj)
    if answer.status == 201:
        return []
    assert answer.status == 422, answer.body
    return [f"{cause['field']}: {cause['message']}" for cause in answer.body["details"]["causes"]]


async def test_webhooks(call):
    """Each error of a webhook is reported at its field, in order."""
    plural, kind = "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
    for case in CASES["webhooks"]:
        hook = {key: value for key, value in {**HOOK, **case["change"]}.items() if value is not None}
        assert await causes(call, plural, kind, {"webhooks": [hook]}) == case["wanted"]


async def test_names_are_unique(call):
    """Two webhooks of one name in one configuration are one too many."""
    found = await causes(
        call, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", {"webhooks": [HOOK, HOOK]}
    )
    assert found == ['webhooks[1].name: Duplicate value: "a.example.com"']


async def test_bindings(call):
    """A binding names its policy, one way to its parameters, and actions that go together."""
    plural, kind = "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"
    for case in CASES["bindings"]:
        assert await causes(call, plural, kind, {"spec": case["change"]}) == case["wanted"]
