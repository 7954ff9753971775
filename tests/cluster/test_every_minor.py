"""Each release, from 1.26 to 1.37: everything that behaves does, and no error is logged."""

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asking import Local, config_map, eventually
from calling_back import webhook
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from every_kind import WORKLOADS, binding, definition, mutating_webhook, policy, trouble

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.xdist_group("minors")]

MINORS = range(26, 38)
MAPS = "/api/v1/namespaces/default/configmaps"
SIZES = "/apis/example.com/{}/namespaces/default/sizes"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
ADMISSION = "/apis/admissionregistration.k8s.io"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Kubectl = Callable[..., str]


def policies(minor: int) -> tuple[str, list[str]]:
    """The version in which validating policies are served, and what of flags that takes."""
    if minor >= 30:
        return "v1", []
    version = "v1beta1" if minor >= 28 else "v1alpha1"
    return version, ["--feature-gates", "ValidatingAdmissionPolicy=true"]


def cluster_file(minor: int) -> str:
    """A cluster of the minor with validating policies, and the gates and APIs that they need."""
    version, gates = policies(minor)
    gate = "featureGates: {ValidatingAdmissionPolicy: true}\n" if gates else ""
    config = f"runtimeConfig: {{admissionregistration.k8s.io/{version}: true}}\n" if gates else ""
    return f'version: "1.{minor}"\n{gate}{config}nodes: [{{name: node-1}}]\n'


@pytest.fixture(params=MINORS, ids=lambda minor: f"1.{minor}")
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[int, Local]]:
    """A cluster of a minor."""
    local = Local(tmp_path / "state")
    (tmp_path / "cluster.yaml").write_text(cluster_file(request.param))
    try:
        local.run("up", "--config", str(tmp_path / "cluster.yaml"))
        yield request.param, local
    finally:
        local.run("down", "--purge")


@pytest.fixture
def run(release: tuple[int, Local], find_kubectl: Callable[[str], Path], tmp_path: Path) -> Kubectl:
    """The kubectl nearest to the release."""
    minor, local = release
    binary = find_kubectl("1.36" if minor >= 34 else "1.32")

    def call(*arguments: str, stdin: str = "", code: int = 0) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        environment["KUBECONFIG"] = str(local.state / "kubeconfig")
        result = subprocess.run(
            [str(binary), *arguments],
            input=stdin, capture_output=True, text=True, timeout=150, cwd=tmp_path, env=environment,
        )  # fmt: skip
        assert result.returncode == code, f"{arguments}\n{result.stdout}\n{result.stderr}"
        return result.stdout + result.stderr

    return call


def test_release(release: tuple[int, Local], run: Kubectl) -> None:
    """Workloads, streams, custom resources, access, quotas, budgets, webhooks, policies, tokens."""
    minor, local = release
    run("apply", "-f", "-", stdin=WORKLOADS)
    with webhook(local.state) as client:
        custom_resources(local, run, client)
        admission(local, minor, client)
        access(local, run)
        limits(local)
        workloads(local, run)
        assert trouble(local) == []


def workloads(local: Local, run: Kubectl) -> None:
    for name in ("deployment/web", "statefulset/db", "daemonset/agent"):
        run("rollout", "status", name, "--timeout=120s")
    run("wait", "--for=condition=complete", "job/once", "--timeout=120s")
    run("create", "job", "now", "--from=cronjob/often")
    run("wait", "--for=condition=complete", "job/now", "--timeout=120s")
    assert run("logs", "daemonset/agent") == "hello\n"
    assert run("exec", "daemonset/agent", "--", "echo", "inside") == "inside\n"
    slices = f"{SLICES}?labelSelector=kubernetes.io/service-name=web"
    eventually(lambda: sum(len(s.get("endpoints") or ()) for s in local.get(slices)["items"]) == 2)
    budget = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/db"
    eventually(lambda: local.get(budget).get("status", {}).get("currentHealthy") == 2)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "db-0"}}
    status, refused = local.ask("POST", "/api/v1/namespaces/default/pods/db-0/eviction", eviction)
    assert (status, refused["reason"]) == (429, "TooManyRequests"), refused


def custom_resources(local: Local, run: Kubectl, client: dict[str, Any]) -> None:
    local.create(CRDS, definition(client))
    # kubectl fails where conditions are null, as they are until the names are looked at (kubernetes 66439).
    run("wait", "--for=jsonpath={.status.acceptedNames.kind}=Size", "crd/sizes.example.com", "--timeout=120s")
    run("wait", "--for=condition=established", "crd/sizes.example.com", "--timeout=120s")
    size = {"apiVersion": "example.com/v2", "kind": "Size", "metadata": {"name": "s"}, "spec": {}}
    assert local.create(SIZES.format("v2"), size)["spec"] == {"replicas": 1}
    assert local.get(SIZES.format("v1") + "/s")["spec"] == {"size": 1}
    run("scale", "--replicas=3", "sizes.example.com/s")
    assert local.get(SIZES.format("v1") + "/s/scale")["spec"] == {"replicas": 3}
    size["metadata"] = {"name": "many"}
    status, refused = local.ask("POST", SIZES.format("v2"), {**size, "spec": {"replicas": 10}})
    assert (status, refused["message"].rpartition(": ")[2]) == (422, "too many"), refused
    run("patch", "sizes", "s", "--type=merge", "--subresource=status", "-p", '{"status":{"count":2}}')
    assert local.get(SIZES.format("v1") + "/s")["status"] == {"count": 2}


def admission(local: Local, minor: int, client: dict[str, Any]) -> None:
    local.create(f"{ADMISSION}/v1/mutatingwebhookconfigurations", mutating_webhook(client))
    version, _ = policies(minor)
    api, kind = f"admissionregistration.k8s.io/{version}", "ValidatingAdmissionPolicy"
    local.create(f"{ADMISSION}/{version}/validatingadmissionpolicies", policy(api, kind))
    local.create(f"{ADMISSION}/{version}/validatingadmissionpolicybindings", binding(api, kind))
    forbidden = {**config_map("forbidden"), "data": {"forbidden": "x"}}
    status, refused = local.ask("POST", MAPS, forbidden)
    assert (status, refused["reason"]) == (422, "Invalid"), refused
    assert refused["message"].endswith("denied request: policy says no"), refused
    assert local.create(MAPS, config_map("good"))["metadata"]["labels"] == {"mutated": "yes"}
    status, refused = local.ask("POST", MAPS, config_map("bad"))
    assert (status, refused["message"].rpartition(": ")[2]) == (418, "no bad names here"), refused


def access(local: Local, run: Kubectl) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    request = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "jane"},
        "spec": {
            "request": base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    }
    signed = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    local.create(signed, request)
    run("certificate", "approve", "jane")
    eventually(lambda: bool(local.get(f"{signed}/jane")["status"].get("certificate")))
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (local.state / "jane.key").write_bytes(secret)
    certificate = base64.b64decode(local.get(f"{signed}/jane")["status"]["certificate"])
    (local.state / "jane.crt").write_bytes(certificate)
    flags = (
        "--client-certificate",
        str(local.state / "jane.crt"),
        "--client-key",
        str(local.state / "jane.key"),
    )
    run("config", "set-credentials", "jane", *flags)
    run("get", "pods", "--user=jane")
    assert 'User "jane" cannot list resource "secrets"' in run("get", "secrets", "--user=jane", code=1)
    token = run("create", "token", "default").strip()
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status, review = local.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)
    assert status == 201
    assert review["status"]["user"]["username"] == "system:serviceaccount:default:default"


def limits(local: Local) -> None:
    maps = "/api/v1/namespaces/limited/configmaps"
    quota = "/api/v1/namespaces/limited/resourcequotas/few"
    eventually(lambda: local.get(quota).get("status", {}).get("used", {}).get("count/configmaps") == "1")
    for name in ("a", "b"):
        local.create(maps, config_map(name))
    status, refused = local.ask("POST", maps, config_map("c"))
    assert (status, "exceeded quota: few" in refused["message"]) == (403, True), refused
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    pod |= {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    made = local.create("/api/v1/namespaces/limited/pods", pod)
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m"}
    pod = json.loads(json.dumps(pod).replace('"image"', '"resources": {"limits": {"cpu": "2"}}, "image"'))
    pod["metadata"]["name"] = "big"
    status, refused = local.ask("POST", "/api/v1/namespaces/limited/pods", pod)
    assert (status, refused["reason"]) == (403, "Forbidden"), refused
