"""The Pod Security Standards: each check by itself, and what the plugin does with them."""

from typing import Any

import pytest
from server_in_process import Caller, make_service_account

from kubeskew.apiserver.admission.podsecurity.plugin import Evaluator, Level, Policy, details, read_policy

GOOD = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(security: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """The spec of a pod of one container, restricted but for `security` and `spec`."""
    container = {"name": "c", "image": "i", "securityContext": {**GOOD, **(security or {})}}
    for field in ("ports", "livenessProbe"):
        if field in spec:
            container[field] = spec.pop(field)
    return {"containers": [container], **spec}


BASELINE = [
    (pod(), ""),
    (pod({"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}), ""),
    (
        pod({"capabilities": {"add": ["SYS_TIME", "NET_RAW"]}}),
        (
            'non-default capabilities (container "c" must not include "NET_RAW", "SYS_TIME" in '
            "securityContext.capabilities.add)"
        ),
    ),
    (pod(hostNetwork=True, hostIPC=True), "host namespaces (hostNetwork=true, hostIPC=true)"),
    (pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), 'hostPath volumes (volume "v")'),
    (
        pod(ports=[{"hostPort": 81}, {"hostPort": 80}]),
        'hostPort (container "c" uses hostPorts 80, 81)',
    ),
    (
        pod(livenessProbe={"httpGet": {"host": "h"}}),
        'probe or lifecycle host (container "c" uses probe or lifecycle host "h")',
    ),
    (pod({"privileged": True}), 'privileged (container "c" must not set securityContext.privileged=true)'),
    (
        pod({"procMount": "Unmasked"}),
        'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
    ),
    (pod({"procMount": "Unmasked"}, hostUsers=False), ""),
    (
        pod({"seLinuxOptions": {"type": "spc_t", "user": "u"}}),
        (
            'seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions: type "spc_t"; '
            "user may not be set)"
        ),
    ),
    (
        pod(securityContext={"seccompProfile": {"type": "Unconfined"}}),
        'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    (
        pod(securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem"}, {"name": "kernel.msgmax"}]}),
        "forbidden sysctls (kernel.msgmax)",
    ),
    (
        pod(
            {"windowsOptions": {"hostProcess": True}},
            securityContext={"windowsOptions": {"hostProcess": True}},
        ),
        ('hostProcess (pod and container "c" must not set securityContext.windowsOptions.hostProcess=true)'),
    ),
    (
        pod({"appArmorProfile": {"type": "Unconfined"}}),
        'forbidden AppArmor profile (container "c" must not set AppArmor profile type to "Unconfined")',
    ),
]


@pytest.mark.parametrize(("spec", "expected"), BASELINE)
def test_baseline(spec: dict[str, Any], expected: str) -> None:
    """Each check of the baseline says who breaks it and how."""
    assert details(Evaluator(36).violations(Level("baseline"), {}, spec)) == expected


RESTRICTED = [
    (pod(), ""),
    (pod(volumes=[{"name": "v", "configMap": {}}]), ""),
    (
        pod({"allowPrivilegeEscalation": None}),
        (
            'allowPrivilegeEscalation != false (container "c" must set '
            "securityContext.allowPrivilegeEscalation=false)"
        ),
    ),
    (
        pod({"capabilities": {"add": ["CHOWN"]}}),
        (
            'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]; '
            'container "c" must not include "CHOWN" in securityContext.capabilities.add)'
        ),
    ),
    (
        pod(volumes=[{"name": "v", "hostPath": {}}, {"name": "w", "nfs": {}}]),
        'restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")',
    ),
    (
        pod({"runAsNonRoot": None}),
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)',
    ),
    (pod({"runAsNonRoot": None}, securityContext={"runAsNonRoot": True}), ""),
    (
        pod({"runAsNonRoot": False}),
        'runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)',
    ),
    (pod({"runAsUser": 0}), 'runAsUser=0 (container "c" must not set runAsUser=0)'),
    (pod({"runAsUser": 0}, hostUsers=False), ""),
    (
        pod({"seccompProfile": None}),
        (
            'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to '
            '"RuntimeDefault" or "Localhost")'
        ),
    ),
    (pod({"seccompProfile": None, "capabilities": None}, os={"name": "windows"}), ""),
]


@pytest.mark.parametrize(("spec", "expected"), RESTRICTED)
def test_restricted(spec: dict[str, Any], expected: str) -> None:
    """Each check that restricted adds; what it says all of is not said by the baseline too."""
    assert details(Evaluator(36).violations(Level("restricted"), {}, spec)) == expected


@pytest.mark.parametrize(
    ("server", "version", "refused"),
    [(36, "latest", True), (36, "v1.33", False), (33, "latest", False), (36, "v1.99", True)],
)
def test_versions(server: int, version: str, refused: bool) -> None:
    """A check acts from its release on; a version from the future is the server's own."""
    spec = pod(livenessProbe={"tcpSocket": {"host": "h"}})

    assert bool(Evaluator(server).violations(Level("baseline", version), {}, spec)) is refused


def test_labels() -> None:
    """A namespace that enforces warns as well; nonsense enforces the most and warns of nothing."""
    prefix, levels = "pod-security.kubernetes.io/", "must be one of privileged, baseline, restricted"

    assert read_policy({f"{prefix}enforce": "baseline", f"{prefix}enforce-version": "v1.30"})[0] == Policy(
        Level("baseline", "v1.30"), Level(), Level("baseline", "v1.30")
    )
    policy, errors = read_policy(
        {f"{prefix}enforce": "x", f"{prefix}warn": "y", f"{prefix}audit-version": "1"}
    )
    assert policy == Policy(Level("restricted"), Level(), Level())
    assert [str(error) for error in errors] == [
        f'metadata.labels[{prefix}enforce]: Invalid value: "x": {levels}',
        f'metadata.labels[{prefix}audit-version]: Invalid value: "1": must be "latest" or "v1.x"',
        f'metadata.labels[{prefix}warn]: Invalid value: "y": {levels}',
    ]


def labelled(**levels: str) -> dict[str, Any]:
    labels = {f"pod-security.kubernetes.io/{mode}": level for mode, level in levels.items()}
    return {"metadata": {"name": "x", "labels": labels}}


async def test_pods(api: Caller) -> None:
    """Pods are refused or warned of, their controllers only warned of."""
    await api.post("/api/v1/namespaces", labelled(enforce="baseline", warn="restricted"))
    await make_service_account(api.server, "x")
    loose = {"containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": loose}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}

    refused = await api.post(
        "/api/v1/namespaces/x/pods", {"metadata": {"name": "p"}, "spec": pod(hostPID=True)}
    )
    warned = await api.post("/api/v1/namespaces/x/pods", {"metadata": {"name": "q"}, "spec": loose})
    deployed = await api.post(
        "/apis/apps/v1/namespaces/x/deployments", {"metadata": {"name": "d"}, "spec": spec}
    )

    assert (refused.status, refused.body["message"]) == (
        403,
        'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)',
    )
    start = '299 - "would violate PodSecurity \\"restricted:latest\\": allowPrivilegeEscalation != false'
    for answer in (warned, deployed):
        assert answer.status == 201
        assert [text.startswith(start) for text in answer.warnings] == [True]


async def test_namespaces(api: Caller) -> None:
    """Labels must make sense; a stricter level reports the pods that are there."""
    for name in ("a", "b"):
        made = {"metadata": {"name": name}, "spec": pod(hostPID=True)}
        assert (await api.post("/api/v1/namespaces/default/pods", made)).status == 201

    wrong = await api.post("/api/v1/namespaces", labelled(enforce="strict"))
    stricter = await api.patch(
        "/api/v1/namespaces/default", labelled(enforce="baseline") | {"kind": "Namespace"}
    )

    assert (wrong.status, wrong.body["reason"]) == (422, "Invalid")
    assert stricter.status == 400  # another name
    body = {"metadata": {"labels": labelled(enforce="baseline")["metadata"]["labels"]}}
    patched = await api.patch("/api/v1/namespaces/default", body)
    assert patched.warnings == [
        (
            '299 - "existing pods in namespace \\"default\\" violate the new PodSecurity enforce level '
            '\\"baseline:latest\\""'
        ),
        '299 - "a (and 1 other pod): host namespaces"',
    ]
    again = await api.patch("/api/v1/namespaces/default", body)
    assert again.warnings == []
