"""Limit ranges: what they fill in, what they refuse, and which of them are refused."""

from typing import Any

import pytest
from server_in_process import Caller, close_server, open_server

NAMESPACE = "/api/v1/namespaces/default"
RANGES, PODS = f"{NAMESPACE}/limitranges", f"{NAMESPACE}/pods"


def limit_range(*limits: dict[str, Any], name: str = "limits") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"limits": [*limits]}}


def pod(*containers: dict[str, Any], name: str = "p", **spec: Any) -> dict[str, Any]:
    """A pod of containers that are given by their resources."""
    made = [{"name": f"c{n}", "image": "i", "resources": container} for n, container in enumerate(containers)]
    return {"metadata": {"name": name}, "spec": {"containers": made, **spec}}


async def test_defaults(api: Caller) -> None:
    """Containers and init containers get what they do not say, and an annotation of the pod says so."""
    limits = {"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "1"}}
    await api.post(RANGES, limit_range(limits))
    init: dict[str, Any] = {"initContainers": [{"name": "i", "image": "i"}]}

    made = (await api.post(PODS, pod({"requests": {"cpu": "500m"}}, **init))).body

    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "2", "memory": "1Gi"},
        "requests": {"cpu": "500m", "memory": "1Gi"},
    }
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: memory request for container c0; cpu, memory limit for container c0; "
        "cpu, memory request for init container i; cpu, memory limit for init container i"
    )


REFUSED = [
    (
        {"type": "Container", "min": {"cpu": "100m"}},
        pod({"requests": {"cpu": "50m"}}),
        "minimum cpu usage per Container is 100m, but request is 50m",
    ),
    (
        {"type": "Container", "max": {"memory": "1Gi"}, "default": {"memory": "1Mi"}},
        pod({"limits": {"memory": "2Gi"}}),
        "maximum memory usage per Container is 1Gi, but limit is 2Gi",
    ),
    (
        {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
        pod({"limits": {"cpu": "3"}, "requests": {"cpu": "1"}}),
        "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
    ),
    (
        {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
        pod({}),
        "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
    ),
    (
        {"type": "Pod", "max": {"cpu": "1"}},
        pod({"limits": {"cpu": "700m"}}, {"limits": {"cpu": "700m"}}),
        "maximum cpu usage per Pod is 1, but limit is 1400m",
    ),
    (
        {"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "500m"}},
        pod({}),
        (
            "[minimum cpu usage per Pod is 500m.  No request is specified, "
            "maximum cpu usage per Pod is 1.  No limit is specified]"
        ),
    ),
    (
        {"type": "Pod", "max": {"cpu": "1"}},
        pod({"limits": {"cpu": "100m"}}, resources={"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}),
        "maximum cpu usage per Pod is 1, but limit is 2",
    ),
]


@pytest.mark.parametrize(("limits", "wanted", "why"), REFUSED)
async def test_refused_pods(api: Caller, limits: dict[str, Any], wanted: dict[str, Any], why: str) -> None:
    """A pod out of bounds is refused; several errors stand in one list."""
    made = await api.post(RANGES, limit_range(limits))
    assert made.status == 201, made.body

    answer = await api.post(PODS, wanted)

    assert (answer.status, answer.body["message"]) == (403, f'pods "p" is forbidden: {why}')


async def test_claims(api: Caller) -> None:
    """A volume claim is held to the storage of its type, when it is made and when it grows."""
    limits = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
    await api.post(RANGES, limit_range(limits))

    def claim(storage: str) -> dict[str, Any]:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
        return {"metadata": {"name": "v"}, "spec": spec}

    small = await api.post(f"{NAMESPACE}/persistentvolumeclaims", claim("1Mi"))
    large = await api.post(f"{NAMESPACE}/persistentvolumeclaims", claim("3Gi"))
    fine = await api.post(f"{NAMESPACE}/persistentvolumeclaims", claim("2Gi"))

    start = 'persistentvolumeclaims "v" is forbidden: '
    assert small.body["message"] == (
        f"{start}minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"
    )
    assert large.body["message"] == (
        f"{start}maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"
    )
    assert fine.status == 201


async def test_old_releases_know_no_resources_of_pods() -> None:
    """With PodLevelResources off, containers alone count."""
    server = await open_server(33)
    try:
        api = Caller(server)
        await api.post(RANGES, limit_range({"type": "Pod", "max": {"cpu": "1"}}))
        made = await api.post(PODS, pod({"limits": {"cpu": "100m"}}))
        assert made.status == 201, made.body
    finally:
        await close_server(server)


BAD = [
    (
        {"type": "Foo"},
        'spec.limits[0].type: Invalid value: "Foo": must be a standard limit type or fully qualified',
    ),
    (
        {"type": "PersistentVolumeClaim"},
        (
            "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but "
            "neither was provided"
        ),
    ),
    (
        {"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}},
        'spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1',
    ),
    (
        {"type": "Container", "max": {"cpu": "4"}, "min": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}},
        (
            'spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than '
            "max/min = 2.000000"
        ),
    ),
    (
        {"type": "Pod", "default": {"cpu": "1"}},
        "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
    ),
    (
        {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}},
        (
            'spec.limits[0].defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than '
            "default limit value 1"
        ),
    ),
    (
        {"type": "Container", "default": {"x.io/a": "1"}, "defaultRequest": {"x.io/a": "2"}},
        (
            '[spec.limits[0].defaultRequest[x.io/a]: Invalid value: "2": default request value 2 is greater '
            'than default limit value 1, spec.limits[0].defaultRequest[x.io/a]: Invalid value: "2": default '
            "value 1 must equal to defaultRequest value 2 in x.io/a]"
        ),
    ),
]


@pytest.mark.parametrize(("limits", "why"), BAD)
async def test_bad_limit_ranges(api: Caller, limits: dict[str, Any], why: str) -> None:
    """A limit range whose values contradict each other is refused."""
    answer = await api.post(RANGES, limit_range(limits))

    assert (answer.status, answer.body["message"]) == (422, f'LimitRange "limits" is invalid: {why}')
