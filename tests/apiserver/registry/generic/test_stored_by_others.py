"""A server reads policies, levels and roles that servers of other releases have stored."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from server_in_process import Answer, Caller, close_server, config_map, open_server

MAPS = "/api/v1/namespaces/default/configmaps"
ADMISSION = "/apis/admissionregistration.k8s.io"
FLOW = "/apis/flowcontrol.apiserver.k8s.io"
RULES = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}]
Open = Callable[..., Awaitable[Caller]]
SET = 'Object{metadata: Object.metadata{labels: {"policy": "was-here"}}}'


async def creation(caller: Caller, name: str) -> Answer:
    """The answer to the creation of a config map, once the server has seen all there is."""
    await caller.server.services.store.refresh()
    return await caller.post(MAPS, config_map(name))


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    """Opens servers of any minor over one log."""
    async with AsyncExitStack() as stack:

        async def open_one(minor: int, **options: Any) -> Caller:
            server = await open_server(minor, f"sqlite+aiosqlite:///{tmp_path}/log.db", **options)
            stack.push_async_callback(close_server, server)
            return Caller(server)

        yield open_one


async def test_shares_of_levels(opened: Open) -> None:
    """Shares that 1.26 stores as assured are the nominal ones of 1.29, of default levels too."""
    old, new = await opened(26), await opened(29)
    shares = {"nominalConcurrencyShares": 7, "limitResponse": {"type": "Reject"}}
    body = {"metadata": {"name": "l"}, "spec": {"type": "Limited", "limited": shares}}
    made = await old.post(f"{FLOW}/v1beta3/prioritylevelconfigurations", body)
    assert made.body["spec"]["limited"]["nominalConcurrencyShares"] == 7
    shown = await old.get(f"{FLOW}/v1beta2/prioritylevelconfigurations/l")
    assert shown.body["spec"]["limited"]["assuredConcurrencyShares"] == 7
    for name, wanted in (("l", 7), ("workload-low", 100)):
        for version in ("v1beta3", "v1"):
            shown = await new.get(f"{FLOW}/{version}/prioritylevelconfigurations/{name}")
            assert shown.body["spec"]["limited"]["nominalConcurrencyShares"] == wanted


async def test_validating_policies_of_old_releases(opened: Open) -> None:
    """In 1.26 every binding denies and needs no actions; 1.30 acts on what 1.28 stored."""
    version = {"runtime_config": {f"admissionregistration.k8s.io/{v}": True for v in ("v1alpha1", "v1beta1")}}
    version["gates"] = {"ValidatingAdmissionPolicy": True}
    policy: dict[str, Any] = {"metadata": {"name": "p"}}
    policy["spec"] = {"matchConstraints": {"resourceRules": RULES}, "validations": [{"expression": "false"}]}
    binding = {"metadata": {"name": "p"}, "spec": {"policyName": "p"}}
    oldest, old = await opened(26, **version), await opened(28, **version)
    path = f"{ADMISSION}/{{}}/validatingadmissionpolic{{}}"
    assert (await oldest.post(path.format("v1alpha1", "ies"), policy)).status == 201
    assert (await oldest.post(path.format("v1alpha1", "ybindings"), binding)).status == 201
    refused = await creation(oldest, "a")
    assert (refused.status, "denied request" in refused.body["message"]) == (422, True)
    later = await opened(27, **version)  # has actions, and this binding has none
    assert (await creation(later, "b")).status == 201
    new = await opened(30)
    await old.delete(path.format("v1beta1", "ybindings/p"))
    assert (await creation(new, "a")).status == 201
    bound = {"metadata": {"name": "q"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
    assert (await old.post(path.format("v1beta1", "ybindings"), bound)).status == 201
    assert (await creation(new, "c")).status == 422
    off = await opened(29)  # its gate is off by default
    assert (await creation(off, "c")).status == 201


async def test_mutating_policies_follow_their_gate(opened: Open) -> None:
    """A policy of 1.36 works in 1.37, and in 1.35 with its gate on; with the gate off it does nothing."""
    new, newest, old = await opened(36), await opened(37), await opened(35)
    config = {"admissionregistration.k8s.io/v1beta1": True}
    asked = await opened(35, gates={"MutatingAdmissionPolicy": True}, runtime_config=config)
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": SET}}
    policy: dict[str, Any] = {"metadata": {"name": "p"}}
    policy["spec"] = {
        "matchConstraints": {"resourceRules": RULES},
        "mutations": [mutation],
        "reinvocationPolicy": "Never",
    }
    path = f"{ADMISSION}/v1/mutatingadmissionpolic"
    assert (await new.post(f"{path}ies", policy)).status == 201
    bound = {"metadata": {"name": "p"}, "spec": {"policyName": "p"}}
    assert (await new.post(f"{path}ybindings", bound)).status == 201
    for caller, name, labels in (
        (new, "a", {"policy": "was-here"}),
        (newest, "b", {"policy": "was-here"}),
        (asked, "c", {"policy": "was-here"}),
        (old, "d", None),
    ):
        made = await creation(caller, name)
        assert (name, made.body["metadata"].get("labels")) == (name, labels)


async def test_what_cannot_be_decoded_is_left_out(opened: Open) -> None:
    """A policy that only a newer server could read is as if it were not there; the server works on."""
    new = await opened(37)
    policy: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"reinvocationPolicy": "Never"}}
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": SET}}
    policy["spec"] |= {"matchConstraints": {"resourceRules": RULES}, "mutations": [mutation]}
    assert (await new.post(f"{ADMISSION}/v1/mutatingadmissionpolicies", policy)).status == 201
    config = {"admissionregistration.k8s.io/v1beta1": True}
    old = await opened(35, gates={"MutatingAdmissionPolicy": True}, runtime_config=config)
    assert (await old.get(f"{ADMISSION}/v1beta1/mutatingadmissionpolicies/p")).status == 500
    assert (await creation(old, "a")).status == 201
