"""Pods get tokens and pull secrets of their service accounts, or are refused."""

import asyncio
from typing import Any

import pytest
from server_in_process import Caller, make_service_account

MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
NAMESPACE = "/api/v1/namespaces/default"
PODS, ACCOUNTS = f"{NAMESPACE}/pods", f"{NAMESPACE}/serviceaccounts"


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    made = [{"name": f"c{n}", "image": "i", **container} for n, container in enumerate(containers or ({},))]
    return {"metadata": {"name": "p"}, "spec": {"containers": made, **spec}}


async def test_a_pod_gets_its_token(api: Caller) -> None:
    """The default account, a projected volume, and a mount in every container that has none there."""
    own = {"volumeMounts": [{"name": "v", "mountPath": MOUNT}]}
    wanted = pod({}, own, volumes=[{"name": "v", "emptyDir": {}}])

    spec = (await api.post(PODS, wanted)).body["spec"]

    name = spec["volumes"][1]["name"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    assert name.startswith("kube-api-access-")
    assert len(name) == len("kube-api-access-12345")
    assert spec["volumes"][1]["projected"] == {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "namespace",
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                        }
                    ]
                }
            },
        ],
        "defaultMode": 420,
    }
    mounts = [container["volumeMounts"] for container in spec["containers"]]
    assert mounts == [[{"name": name, "readOnly": True, "mountPath": MOUNT}], own["volumeMounts"]]


@pytest.mark.parametrize(
    ("of_account", "of_pod", "mounted"),
    [(None, None, True), (False, None, False), (False, True, True), (True, False, False)],
)
async def test_who_decides_about_the_token(
    api: Caller, of_account: bool | None, of_pod: bool | None, mounted: bool
) -> None:
    """The pod, else its account, else the token is mounted."""
    account: dict[str, Any] = {"metadata": {"name": "a"}, "imagePullSecrets": [{"name": "s"}]}
    if of_account is not None:
        account["automountServiceAccountToken"] = of_account
    await api.post(ACCOUNTS, account)
    extra = {} if of_pod is None else {"automountServiceAccountToken": of_pod}

    spec = (await api.post(PODS, pod(serviceAccountName="a", **extra))).body["spec"]

    assert ("volumes" in spec) is mounted
    assert spec["imagePullSecrets"] == [{"name": "s"}]


async def test_no_account(api: Caller) -> None:
    """A pod of an account that does not exist is refused."""
    answer = await api.post(PODS, pod(serviceAccountName="x"))

    assert (answer.status, answer.body["message"]) == (
        403,
        'pods "p" is forbidden: error looking up service account default/x: serviceaccount "x" not found',
    )


async def test_the_default_account_is_waited_for(api: Caller) -> None:
    """In a namespace that was just made the controller may be about to make the account."""
    await api.post("/api/v1/namespaces", {"metadata": {"name": "new"}})

    answer, _ = await asyncio.gather(
        api.post("/api/v1/namespaces/new/pods", pod()), make_service_account(api.server, "new")
    )

    assert answer.status == 201


MIRROR = {"kubernetes.io/config.mirror": "x"}
TOKEN = {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
MIRRORED = [
    ({"serviceAccountName": "default"}, "a mirror pod may not reference service accounts"),
    ({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}, "a mirror pod may not reference secrets"),
    ({"imagePullSecrets": [{"name": "s"}]}, "a mirror pod may not reference secrets"),
    (
        {"volumes": [{"name": "v", **TOKEN}]},
        "a mirror pod may not use ServiceAccountToken volume projections",
    ),
]


@pytest.mark.parametrize(("spec", "why"), MIRRORED)
async def test_mirror_pods(api: Caller, spec: dict[str, Any], why: str) -> None:
    """A mirror pod that refers to a service account or to secrets is refused."""
    made = pod(nodeName="n", **spec)
    made["metadata"]["annotations"] = MIRROR

    answer = await api.post(PODS, made)

    assert answer.body["message"] == f'pods "p" is forbidden: {why}'


async def test_a_plain_mirror_pod_stays_as_it_is(api: Caller) -> None:
    """A mirror pod gets neither account nor volumes."""
    made = pod(nodeName="n")
    made["metadata"]["annotations"] = MIRROR

    answer = await api.post(PODS, made)

    assert answer.status == 201
    assert not {"volumes", "serviceAccountName"} & answer.body["spec"].keys()


def env(secret: str) -> dict[str, Any]:
    return {"env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}]}


END = "is not allowed because service account a does not reference that secret"
UNLISTED = [
    (pod(env("t")), f'container c0 with envVar E referencing secret.secretName="t" {END}'),
    (
        pod(volumes=[{"name": "v", "secret": {"secretName": "t"}}]),
        f'volume with secret.secretName="t" {END}',
    ),
    (
        pod({"envFrom": [{"secretRef": {"name": "t"}}]}),
        f'container c0 with envFrom referencing secret.secretName="t" {END}',
    ),
    (
        pod(imagePullSecrets=[{"name": "t"}]),
        (
            'imagePullSecrets[0].name="t" is not allowed because service account a does not reference that '
            "imagePullSecret"
        ),
    ),
    (pod(env("s")), ""),
]


@pytest.mark.parametrize(("wanted", "why"), UNLISTED)
async def test_limited_secrets(api: Caller, wanted: dict[str, Any], why: str) -> None:
    """An account can limit which secrets its pods refer to."""
    annotations = {"kubernetes.io/enforce-mountable-secrets": "true"}
    await api.post(
        ACCOUNTS, {"metadata": {"name": "a", "annotations": annotations}, "secrets": [{"name": "s"}]}
    )
    wanted["spec"]["serviceAccountName"] = "a"

    answer = await api.post(PODS, wanted)

    assert answer.body.get("message", "") == (f'pods "p" is forbidden: {why}' if why else "")


async def test_the_old_name_of_the_field(api: Caller) -> None:
    """`serviceAccount` is read where the new name is missing, and both are written, in templates too."""
    await api.post(ACCOUNTS, {"metadata": {"name": "a"}})
    made = (await api.post(PODS, pod(serviceAccount="a"))).body
    made["spec"].pop("serviceAccount")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(serviceAccountName="a")["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployment = {"metadata": {"name": "d"}, "spec": spec}

    replaced = await api.put(f"{PODS}/p", made)
    deployed = await api.post("/apis/apps/v1/namespaces/default/deployments", deployment)

    assert made["spec"]["serviceAccountName"] == "a"
    assert (replaced.status, replaced.body["spec"]["serviceAccount"]) == (200, "a")
    assert deployed.body["spec"]["template"]["spec"]["serviceAccount"] == "a"
