"""Trust anchors of ClusterTrustBundles for volumes: each certificate once.

The anchors have one order per kubelet, which changes when it restarts.

Source: pkg/kubelet/clustertrustbundle/clustertrustbundle_manager.go, 1.36.
"""

from collections.abc import Iterable

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Entropy, repeatable
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.security.pem import certificate_pem, certificates
from kubeskew.apimachinery.selectors.labels import selector_or_nothing
from kubeskew.kubelet.containers.environment import ConfigError


class TrustBundles:
    def __init__(self, client: APIClient, entropy: Entropy, version: str) -> None:
        """`version` is that of the API that the kubelet uses; empty without the gate."""
        self._client = client
        self._ref = Ref("certificates.k8s.io", version, "clustertrustbundles", False, "ClusterTrustBundle")
        self._entropy = entropy
        self._seed = ""

    async def anchors(self, source: Object) -> bytes:
        """The anchors of a clusterTrustBundle source. Raises ConfigError."""
        if not self._ref.version:
            raise ConfigError("ClusterTrustBundle projection is not supported in static kubelet mode")
        optional = bool(source.get("optional"))
        if name := source.get("name"):
            return await self._by_name(name, optional=optional)
        if signer := source.get("signerName"):
            return await self._by_signer(signer, source.get("labelSelector"), optional=optional)
        raise ConfigError("ClusterTrustBundle projection requires either name or signerName to be set")

    async def _by_name(self, name: str, *, optional: bool) -> bytes:
        try:
            bundle = await self._client.get(self._ref, name)
        except StatusError as error:
            if error.code == 404 and optional:
                return b""
            text = error.message
            if error.code == 404:
                text = f'clustertrustbundle.certificates.k8s.io "{name}" not found'
            raise ConfigError(f"while getting ClusterTrustBundle: {text}") from None
        except CONNECTION_ERRORS as error:
            raise ConfigError(f"while getting ClusterTrustBundle: {error}") from None
        return self._normalized([bundle])

    async def _by_signer(self, signer: str, selector: Object | None, *, optional: bool) -> bytes:
        """A source without a selector matches nothing, an empty selector everything."""
        try:
            bundles = (await self._client.list(self._ref))["items"]
        except (StatusError, *CONNECTION_ERRORS):
            raise ConfigError("ClusterTrustBundle informer has not yet synced") from None
        wanted = selector_or_nothing(selector)
        matching = [
            bundle
            for bundle in bundles
            if bundle["spec"].get("signerName") == signer
            and wanted.matches(bundle["metadata"].get("labels") or {})
        ]
        if matching:
            return self._normalized(matching)
        if optional:
            return b""
        raise ConfigError("combination of signerName and labelSelector matched zero ClusterTrustBundles")

    def _normalized(self, bundles: Iterable[Object]) -> bytes:
        found = {der for bundle in bundles for der in certificates(bundle["spec"].get("trustBundle") or "")}
        anchors = sorted(found)
        self._seed = self._seed or self._entropy.uid()
        repeatable(self._seed).shuffle(anchors)
        return b"".join(map(certificate_pem, anchors))
