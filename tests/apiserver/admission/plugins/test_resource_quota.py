"""Quotas at admission: nothing over them is stored, however many ask at once; and which are refused."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from server_in_process import Answer, Caller, close_server, open_server

NAMESPACE = "/api/v1/namespaces/default"
QUOTAS, PODS = f"{NAMESPACE}/resourcequotas", f"{NAMESPACE}/pods"


def pod(name: str, **requests: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


async def measured(api: Caller, name: str, hard: dict[str, str], **spec: Any) -> None:
    """A quota whose status says that nothing is used, as the controller would soon."""
    made = await api.post(QUOTAS, {"metadata": {"name": name}, "spec": {"hard": hard, **spec}})
    assert made.status == 201, made.body
    status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    assert (await api.put(f"{QUOTAS}/{name}/status", {**made.body, "status": status})).status == 200


async def used(api: Caller, name: str) -> dict[str, str]:
    found: dict[str, str] = (await api.get(f"{QUOTAS}/{name}")).body["status"]["used"]
    return found


async def test_a_quota_is_charged(api: Caller) -> None:
    """A created pod is charged to its quota by the API server, and one beyond the quota is refused."""
    await measured(api, "q", {"pods": "2", "requests.cpu": "1"})

    assert (await api.post(PODS, pod("a", cpu="600m"))).status == 201

    stored = (await api.get(f"{QUOTAS}/q")).body
    assert stored["status"]["used"] == {"pods": "1", "requests.cpu": "600m"}
    assert "kube-apiserver" in {entry["manager"] for entry in stored["metadata"]["managedFields"]}
    refused = await api.post(PODS, pod("b", cpu="600m"))
    assert refused.status == 403
    assert refused.body["message"] == (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, '
        "limited: requests.cpu=1"
    )
    silent = await api.post(PODS, pod("b"))
    assert silent.body["message"].endswith("failed quota: q: must specify requests.cpu for: c")
    assert await used(api, "q") == {"pods": "1", "requests.cpu": "600m"}


async def test_dry_runs_are_checked_and_not_charged(api: Caller) -> None:
    """A dry run is refused where the write would be, and takes nothing."""
    await measured(api, "q", {"pods": "1"})

    assert (await api.post(f"{PODS}?dryRun=All", pod("a"))).status == 201
    assert await used(api, "q") == {"pods": "0"}
    await api.post(PODS, pod("a"))
    assert (await api.post(f"{PODS}?dryRun=All", pod("b"))).status == 403


async def test_an_unmeasured_quota_limits_nothing_yet(api: Caller) -> None:
    """A quota counts once the controller has taken it up."""
    await api.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}})

    assert (await api.post(PODS, pod("a"))).status == 201


async def test_several_quotas(api: Caller) -> None:
    """Every quota in whose scope the pod is must hold it; only these are charged."""
    await measured(api, "all", {"pods": "5"})
    await measured(api, "short", {"pods": "0"}, scopes=["Terminating"])
    await measured(api, "cheap", {"pods": "1"}, scopes=["BestEffort"])

    assert (await api.post(PODS, pod("a"))).status == 201
    refused = await api.post(PODS, pod("b"))

    assert refused.body["message"].endswith(
        "exceeded quota: cheap, requested: pods=1, used: pods=1, limited: pods=1"
    )
    assert [await used(api, name) for name in ("all", "short", "cheap")] == [
        {"pods": "1"},
        {"pods": "0"},
        {"pods": "1"},
    ]


async def test_counted_objects(api: Caller) -> None:
    """Any resource can be counted; a service is charged when its type changes."""
    await measured(api, "q", {"count/configmaps": "1", "services.nodeports": "0"})

    maps = [await api.post(f"{NAMESPACE}/configmaps", {"metadata": {"name": name}}) for name in "ab"]
    service = await api.post(
        f"{NAMESPACE}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    )
    opened = await api.patch(f"{NAMESPACE}/services/s", {"spec": {"type": "NodePort"}})

    assert [answer.status for answer in maps] == [201, 403]
    assert (service.status, opened.status) == (201, 403)
    assert opened.body["message"].endswith(
        "requested: services.nodeports=1, used: services.nodeports=0, limited: services.nodeports=0"
    )


async def test_many_at_once(api: Caller) -> None:
    """Of many concurrent creates as many are admitted as fit, and the quota says so."""
    await measured(api, "q", {"pods": "10"})
    await measured(api, "cpu", {"requests.cpu": "700m"})

    answers = await asyncio.gather(*(api.post(PODS, pod(f"p{n}", cpu="100m")) for n in range(40)))

    await check(api, answers, 7)
    assert await used(api, "cpu") == {"requests.cpu": "700m"}


async def test_many_at_two_servers(tmp_path: Path) -> None:
    """Two servers over one log admit together no more than fits."""
    url = f"sqlite+aiosqlite:///{tmp_path / 'log.db'}"
    servers = [await open_server(36, url), await open_server(36, url)]
    try:
        first, second = map(Caller, servers)
        await measured(first, "q", {"pods": "6"})
        await servers[1].services.store.refresh()

        answers = await asyncio.gather(
            *(
                api.post(PODS, pod(f"{name}{n}"))
                for n in range(10)
                for name, api in (("a", first), ("b", second))
            )
        )

        stored = (await first.get(PODS)).body["items"]
        assert len(stored) == sum(answer.status == 201 for answer in answers) <= 6
        assert int((await used(first, "q"))["pods"]) >= len(stored)
    finally:
        for server in servers:
            await close_server(server)


async def check(api: Caller, answers: list[Answer], expected: int) -> None:
    assert sorted(answer.status for answer in answers) == [201] * expected + [403] * (len(answers) - expected)
    assert len((await api.get(PODS)).body["items"]) == expected
    assert await used(api, "q") == {"pods": str(expected)}


SELECTOR = {"scopeName": "PriorityClass", "operator": "In"}
BAD: list[tuple[dict[str, Any], str]] = [
    (
        {"hard": {"limit.cpu": "1"}},
        (
            '[spec.hard[limit.cpu]: Invalid value: "limit.cpu": must be a standard resource type or fully '
            'qualified, spec.hard[limit.cpu]: Invalid value: "limit.cpu": must be a standard resource for '
            "quota]"
        ),
    ),
    ({"hard": {"pods": "1500m"}}, 'spec.hard[pods]: Invalid value: "1500m": must be an integer'),
    ({"hard": {"cpu": "-1"}}, 'spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0'),
    (
        {"hard": {"cpu": "1"}, "scopes": ["BestEffort"]},
        'spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource',
    ),
    (
        {"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]},
        'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes',
    ),
    (
        {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [SELECTOR]}},
        (
            "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when "
            "`operator` is 'In' or 'NotIn' for scope selector"
        ),
    ),
    (
        {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [{**SELECTOR, "operator": "Is"}]}},
        'spec.scopeSelector.matchExpressions.operator: Invalid value: "Is": not a valid selector operator',
    ),
]


@pytest.mark.parametrize(("spec", "why"), BAD)
async def test_bad_quotas(api: Caller, spec: dict[str, Any], why: str) -> None:
    """Resources and scopes must exist and fit each other."""
    answer = await api.post(QUOTAS, {"metadata": {"name": "q"}, "spec": spec})

    assert (answer.status, answer.body["message"]) == (422, f'ResourceQuota "q" is invalid: {why}')


async def test_scopes_stay(api: Caller) -> None:
    """The scopes of a quota cannot change, its limits can."""
    spec = {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}
    await api.post(QUOTAS, {"metadata": {"name": "q"}, "spec": spec})

    more = await api.patch(f"{QUOTAS}/q", {"spec": {"hard": {"pods": "2"}}})
    other = await api.patch(f"{QUOTAS}/q", {"spec": {"scopes": ["Terminating"]}})

    assert more.status == 200
    assert other.body["message"] == (
        'ResourceQuota "q" is invalid: spec.scopes: Invalid value: ["Terminating"]: field is immutable'
    )
