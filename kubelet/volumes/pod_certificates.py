"""Certificates of pods for volumes: the kubelet makes a key, asks a signer by a PodCertificateRequest, and
asks again before the certificate ends. Keys are in memory only: a restarted kubelet asks for new ones.

Requests are looked at when the volume is, which is often while it is not set up yet.

Source: pkg/kubelet/podcertificate/podcertificatemanager.go, 1.34 to 1.36.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from kubeskew.apimachinery.client.refs import NODES, SERVICE_ACCOUNTS, Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Clock, Entropy, parse_timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.go_formats import quoted
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.security.pem import certificate_pem, certificates
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.environment import ConfigError

_ABANDONED = timedelta(minutes=10)  # a request that is missing for so long counts as deleted
_JITTER_SECONDS = 300
_NOT_ISSUED = "credential bundle is not issued yet"
_RSA_BITS = {"RSA3072": 3072, "RSA4096": 4096}

Report = Callable[[Object, str, str], None]  # with the pod, the event's reason and its message


class _Key(NamedTuple):
    uid: str
    volume: str
    source: int  # its place among the sources


class _Certificate(NamedTuple):
    key: bytes
    chain: bytes
    refreshed_from: datetime


class _Request(NamedTuple):
    name: str
    key: bytes
    abandoned_at: datetime


@dataclass(slots=True)
class _Record:
    certificate: _Certificate | None = None
    request: _Request | None = None
    refusal: str = ""  # for ever


class IssuingManager:
    """The certificates of one node's pods."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        entropy: Entropy,
        node_name: str,
        report: Report,
        *,
        version: str,
        as_stubs: bool,
    ) -> None:
        """`version` is that of the API; empty without the gate. `as_stubs`: the key's possession is proved by
        a PKCS#10 request, else by a signature of the pod's UID."""
        self._client = client
        self._clock = clock
        self._entropy = entropy
        self._node_name = node_name
        self._report = report
        self._ref = Ref(
            "certificates.k8s.io", version, "podcertificaterequests", True, "PodCertificateRequest"
        )
        self._as_stubs = as_stubs
        self._records: dict[_Key, _Record] = {}

    async def credentials(self, pod: Object, volume: str, index: int, source: Object) -> tuple[bytes, bytes]:
        """The private key and the certificates of a podCertificate source. Raises ConfigError."""
        if not self._ref.version:
            raise ConfigError("PodCertificate projection is not supported in static kubelet mode")
        record = self._records.setdefault(_Key(pod_spec.uid_of(pod), volume, index), _Record())
        try:
            await self._advance(pod, source, record)
        except (StatusError, *CONNECTION_ERRORS):
            pass  # it is tried again with the next look at the volume
        if record.refusal:
            raise ConfigError(record.refusal)
        if record.certificate is None:
            raise ConfigError(_NOT_ISSUED)
        return record.certificate.key, record.certificate.chain

    def forget(self, uid: str) -> None:
        for key in [key for key in self._records if key.uid == uid]:
            del self._records[key]

    async def _advance(self, pod: Object, source: Object, record: _Record) -> None:
        if record.refusal:
            return
        if record.request is not None:
            await self._look(pod, record, record.request)
            return
        held = record.certificate
        if held is None or self._clock.now() >= held.refreshed_from:
            record.request = await self._ask(pod, source)

    async def _ask(self, pod: Object, source: Object) -> _Request:
        namespace, account = pod_spec.namespace_of(pod), pod["spec"].get("serviceAccountName") or "default"
        owner = await self._client.get(SERVICE_ACCOUNTS, account, namespace)
        node = await self._client.get(NODES, self._node_name)
        key, proof = _made(source.get("keyType") or "", pod_spec.uid_of(pod), is_stub=self._as_stubs)
        body = {
            "apiVersion": self._ref.api_version,
            "kind": "PodCertificateRequest",
            "metadata": {
                "namespace": namespace,
                "generateName": "req-",
                "ownerReferences": [
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": pod_spec.name_of(pod),
                        "uid": pod_spec.uid_of(pod),
                    }
                ],
            },
            "spec": {
                "signerName": source["signerName"],
                "podName": pod_spec.name_of(pod),
                "podUID": pod_spec.uid_of(pod),
                "serviceAccountName": account,
                "serviceAccountUID": owner["metadata"]["uid"],
                "nodeName": self._node_name,
                "nodeUID": node["metadata"]["uid"],
                **_present("maxExpirationSeconds", source.get("maxExpirationSeconds")),
                **_present("unverifiedUserAnnotations", source.get("userAnnotations")),
                **proof,
            },
        }
        created = await self._client.create(self._ref, body, namespace)
        begun = parse_timestamp(created["metadata"]["creationTimestamp"])
        return _Request(created["metadata"]["name"], key, begun + _ABANDONED + self._jitter())

    async def _look(self, pod: Object, record: _Record, request: _Request) -> None:
        try:
            found = await self._client.get(self._ref, request.name, pod_spec.namespace_of(pod))
        except StatusError as error:
            if error.code == 404 and self._clock.now() > request.abandoned_at:
                record.request = None
            return
        status = found.get("status") or {}
        for condition in status.get("conditions") or []:
            kind = condition["type"]
            if kind in ("Denied", "Failed"):
                self._refused(pod, record, found, condition)
                return
            if kind == "Issued":
                from_then = parse_timestamp(status["beginRefreshAt"]) + self._jitter()
                chain = _cleaned(status.get("certificateChain") or "")
                record.certificate = _Certificate(request.key, chain, from_then)
                record.request = None
                return

    def _refused(self, pod: Object, record: _Record, request: Object, condition: Object) -> None:
        verb = condition["type"].lower()
        reason, message = quoted(condition.get("reason") or ""), quoted(condition.get("message") or "")
        record.refusal = f"PodCertificateRequest was permanently {verb}: reason={reason} message={message}"
        name = f"{request['metadata']['namespace']}/{request['metadata']['name']}"
        said = "was denied" if verb == "denied" else verb
        text = f"PodCertificateRequest {name} {said}, reason={reason}, message={message}"
        self._report(pod, condition["type"], text)

    def _jitter(self) -> timedelta:
        return timedelta(seconds=self._entropy.random() * _JITTER_SECONDS)


def _present(name: str, value: Any) -> Object:
    return {} if value is None else {name: value}


def _made(kind: str, uid: str, *, is_stub: bool) -> tuple[bytes, Object]:
    """The pair is (private key as PEM, the fields that prove that one has it). Raises ConfigError."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

    curves: dict[str, Any] = {"ECDSAP256": ec.SECP256R1, "ECDSAP384": ec.SECP384R1, "ECDSAP521": ec.SECP521R1}
    digest = hashes.SHA256()
    key: Any
    if kind in _RSA_BITS:
        key = rsa.generate_private_key(65537, _RSA_BITS[kind])
        pss = padding.PSS(padding.MGF1(digest), digest.digest_size)
        signature = key.sign(uid.encode(), pss, digest)
    elif kind in curves:
        key = ec.generate_private_key(curves[kind]())
        signature = key.sign(uid.encode(), ec.ECDSA(digest))
    elif kind == "ED25519":
        key = ed25519.Ed25519PrivateKey.generate()
        signature = key.sign(uid.encode())
    else:
        raise ConfigError(_NOT_ISSUED)  # what is wrong with the type of key only the kubelet's log says
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    if is_stub:
        algorithm = None if kind == "ED25519" else digest
        request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, algorithm)
        return text, {"stubPKCS10Request": _base64(request.public_bytes(serialization.Encoding.DER))}
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return text, {"pkixPublicKey": _base64(public), "proofOfPossession": _base64(signature)}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _cleaned(chain: str) -> bytes:
    """The blocks alone, without headers and what is between them."""
    return b"".join(map(certificate_pem, certificates(chain)))
