"""Stands in for cert-manager in the suite: certificates in secrets, and their authorities in webhooks."""

import base64
import datetime as dt
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import CUSTOM_RESOURCE_DEFINITIONS, SECRETS, Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError

_PERIOD_SECONDS = 0.1
_GROUP = "cert-manager.io"
_INJECT = f"{_GROUP}/inject-ca-from"
_CERTIFICATES = Ref(_GROUP, "v1", "certificates", True, "Certificate")
_WEBHOOKS = Ref(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    False,
    "ValidatingWebhookConfiguration",
)


def _definition(kind: str) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{_GROUP}"},
        "spec": {
            "group": _GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


def _self_signed(names: list[str], now: dt.datetime) -> tuple[bytes, bytes]:
    """A certificate and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=90))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


class CertManager:
    """Issues certificates for all Certificates, of any issuer, and writes their authorities into webhooks."""

    def __init__(self, client: APIClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._authorities: dict[str, str] = {}  # of namespace/name of a certificate, base64

    async def install(self) -> None:
        """Defines cert-manager's kinds."""
        for kind in ("Certificate", "Issuer"):
            await self._client.create(CUSTOM_RESOURCE_DEFINITIONS, _definition(kind))

    async def run(self) -> None:
        """Serves until cancelled."""
        informers = InformerFactory(self._client, self._clock)
        certificates, webhooks = informers.informer(_CERTIFICATES), informers.informer(_WEBHOOKS)
        informers.start()
        try:
            while True:
                for certificate in certificates.list():
                    await self._issue(certificate)
                for configuration in webhooks.list():
                    await self._inject(configuration)
                await self._clock.sleep(_PERIOD_SECONDS)
        finally:
            await informers.stop()

    async def _issue(self, certificate: dict[str, Any]) -> None:
        namespace, name = certificate["metadata"]["namespace"], certificate["metadata"]["name"]
        if f"{namespace}/{name}" in self._authorities or "deletionTimestamp" in certificate["metadata"]:
            return
        authority, key = _self_signed(certificate["spec"]["dnsNames"], self._clock.now())
        data = {"tls.crt": authority, "tls.key": key, "ca.crt": authority}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": certificate["spec"]["secretName"], "namespace": namespace},
            "data": {item: base64.b64encode(value).decode() for item, value in data.items()},
        }
        await self._client.apply(SECRETS, secret, field_manager="cert-manager")
        self._authorities[f"{namespace}/{name}"] = secret["data"]["ca.crt"]

    async def _inject(self, configuration: dict[str, Any]) -> None:
        wanted = (configuration["metadata"].get("annotations") or {}).get(_INJECT, "")
        authority = self._authorities.get(wanted)
        webhooks = configuration.get("webhooks") or []
        if authority is None or all(hook["clientConfig"].get("caBundle") == authority for hook in webhooks):
            return
        trusting = [
            {**hook, "clientConfig": {**hook["clientConfig"], "caBundle": authority}} for hook in webhooks
        ]
        try:
            await self._client.update(_WEBHOOKS, {**configuration, "webhooks": trusting})
        except StatusError as error:
            if error.code not in (404, 409):  # gone, or about to be seen again
                raise
