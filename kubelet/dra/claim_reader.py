"""Reads the claims of pods from the API server, and checks that a pod may use them."""

from kubeskew.apimachinery.claim_users import reservation
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.dra.claims import check_owner
from kubeskew.kubelet.dra.texts import ErrorTexts


class ClaimReader:
    def __init__(self, client: APIClient, claims: Ref, texts: ErrorTexts, *, groups: bool = False) -> None:
        """With `groups` a claim may be the pod's by its group."""
        self._client = client
        self._claims = claims
        self._texts = texts
        self._groups = groups

    async def get(self, pod: Object, name: str) -> Object:
        """Raises DeviceError, whose cause is the client's error."""
        try:
            return await self._client.get(self._claims, name, pod_spec.namespace_of(pod))
        except (StatusError, *CONNECTION_ERRORS) as error:
            text = self._texts.fetch.format(claim=name, pod=pod_spec.name_of(pod), error=error)
            raise DeviceError(text) from error

    def check_use(self, pod: Object, claim: Object, *, owned: bool) -> None:
        """Raises DeviceError unless the claim is reserved for the pod and, if it has to be `owned`, was made
        for it."""
        if owned:
            check_owner(pod, claim, groups=self._groups)
        metadata = claim["metadata"]
        if reservation(claim, pod, groups=self._groups) is None:
            raise DeviceError(
                self._texts.not_allowed.format(
                    pod=pod_spec.name_of(pod),
                    pod_uid=pod_spec.uid_of(pod),
                    claim=metadata["name"],
                    claim_uid=metadata["uid"],
                )
            )
