"""Aggregated roles, certificates and tokens in secrets, on a real API server of this process."""

import base64
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from in_process_transport import real_cluster

from kubeskew.apimachinery.client.refs import SECRETS, SERVICE_ACCOUNTS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.security.certificate_requests import CertificateRequest
from kubeskew.apimachinery.security.web_tokens import new_key, read
from kubeskew.controllers.certificates.authority import client_fault, serving_fault
from kubeskew.controllers.certificates.controllers import REQUESTS, SigningController
from kubeskew.controllers.clusterroleaggregation import CLUSTER_ROLES
from kubeskew.controllers.serviceaccount import AccountTokensController

pytestmark = pytest.mark.asyncio


def authority() -> tuple[bytes, bytes]:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=9))
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return made.public_bytes(Encoding.PEM), pem


def signing_request(name: str, *groups: str, **spec) -> dict:
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    encoded = base64.b64encode(made.public_bytes(Encoding.PEM)).decode()
    whole = {"request": encoded, "usages": ["client auth", "digital signature"], **spec}
    about = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    return {**about, "metadata": {"name": name.rpartition(":")[2]}, "spec": whole}


@asynccontextmanager
async def running(cluster, kind, **context):
    """One more controller, with what the others were not given."""
    controller = kind(replace(cluster.context, used=[], **context))
    cluster.informers.start()
    controller.start()
    await cluster.until(lambda: controller.ready)
    try:
        yield controller
    finally:
        await controller.stop()


async def test_aggregated_roles():
    """Roles gather the rules of those that their selectors match, at once when one comes."""
    async with real_cluster() as cluster:

        async def rules(name):
            return (await cluster.client.get(CLUSTER_ROLES, name)).get("rules") or []

        async def knows(name, resource):
            return any(resource in rule.get("resources", ()) for rule in await rules(name))

        await cluster.until(lambda: knows("view", "pods"))
        await cluster.until(lambda: knows("admin", "rolebindings"))
        labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
        rule = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}
        about = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [rule]}
        await cluster.client.create(CLUSTER_ROLES, {**about, "metadata": {"name": "w", "labels": labels}})
        await cluster.until(lambda: knows("admin", "widgets"))
        assert not await knows("system:aggregate-to-view", "widgets")


async def test_signing():
    """An approved request gets a certificate; one that the signer must refuse is marked failed."""
    async with real_cluster() as cluster, running(cluster, SigningController, authority=authority()):
        client = cluster.client

        async def approved(request):
            made = await client.create(REQUESTS, request)
            decided = {"type": "Approved", "status": "True", "reason": "r"}
            await client.update(REQUESTS, {**made, "status": {"conditions": [decided]}}, "approval")

        async def status(name):
            return (await client.get(REQUESTS, name)).get("status") or {}

        async def certificate(name):
            return (await status(name)).get("certificate")

        signer = "kubernetes.io/kube-apiserver-client"
        await approved(signing_request("jane", "devs", signerName=signer, expirationSeconds=3600))
        pem = base64.b64decode(await cluster.until(lambda: certificate("jane")))
        made = x509.load_pem_x509_certificate(pem)
        assert made.subject.rfc4514_string() == "CN=jane,O=devs"
        lasting = made.not_valid_after_utc - made.not_valid_before_utc
        assert lasting < timedelta(hours=1, minutes=6)
        usage = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        await approved(signing_request("joe", signerName=signer, usages=["server auth"]))

        async def failed():
            return [
                condition
                for condition in (await status("joe"))["conditions"]
                if condition["type"] == "Failed"
            ]

        (condition,) = await cluster.until(failed)
        assert condition["message"] == "invalid usage for client certificate: server auth"


async def test_approving():
    """A node's request is approved once somebody has allowed nodes to ask."""
    async with real_cluster() as cluster:
        signer = "kubernetes.io/kube-apiserver-client-kubelet"
        request = signing_request("system:node:n1", "system:nodes", signerName=signer)
        await cluster.client.create(REQUESTS, request)

        async def approved():
            found = await cluster.client.get(REQUESTS, "n1")
            return (found.get("status") or {}).get("conditions")

        (condition,) = await cluster.until(approved)  # the administrator asks: masters may
        assert condition["message"] == "Auto approving kubelet client certificate after SubjectAccessReview."


@pytest.mark.parametrize(
    ("request_", "usages", "client", "serving"),
    [
        (
            CertificateRequest("system:node:n", ("system:nodes",), frozenset({"dns"})),
            ["digital signature", "server auth"],
            "DNS subjectAltNames are not allowed",
            "",
        ),
        (
            CertificateRequest("system:node:n", ("system:nodes",), frozenset()),
            ["digital signature", "key encipherment", "client auth"],
            "",
            "DNS or IP subjectAltName is required",
        ),
        (
            CertificateRequest("n", ("others",), frozenset()),
            [],
            "subject organization is not system:nodes",
            "subject organization is not system:nodes",
        ),
    ],
)
async def test_what_kubelets_ask_for(request_, usages, client, serving):
    """Requests of kubelets have a form; the first fault is reported."""
    assert client_fault(request_, usages) == client
    assert serving_fault(request_, usages) == serving


async def test_token_secrets():
    """A secret for an account is filled, and goes with the account."""
    key = new_key()
    async with real_cluster() as cluster, running(cluster, AccountTokensController, account_key=key):
        client = cluster.client
        about = {"apiVersion": "v1", "metadata": {"name": "bot", "namespace": "default"}}
        await client.create(SERVICE_ACCOUNTS, {**about, "kind": "ServiceAccount"})
        annotations = {"kubernetes.io/service-account.name": "bot"}
        metadata = {"name": "s", "namespace": "default", "annotations": annotations}
        kind = {"kind": "Secret", "type": "kubernetes.io/service-account-token"}
        await client.create(SECRETS, {**about, **kind, "metadata": metadata})

        async def data():
            return (await client.get(SECRETS, "s", "default")).get("data")

        found = await cluster.until(data)
        claims = read(base64.b64decode(found["token"]).decode()).claims
        assert claims["sub"] == "system:serviceaccount:default:bot"
        assert base64.b64decode(found["ca.crt"]) == b"CA"
        await client.delete(SERVICE_ACCOUNTS, "bot", "default")

        async def gone():
            try:
                await client.get(SECRETS, "s", "default")
            except StatusError as error:
                return error.code == 404
            return False

        await cluster.until(gone)
