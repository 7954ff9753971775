"""A driver behind a socket, as kubelets of 1.26 to 1.30 call it.

Source: pkg/kubelet/cm/dra/plugin/client.go, 1.26 to 1.30.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.dra.plugin import ClaimFailed, ClaimRef, PluginError
from kubeskew.kubelet.dra.plugin_connection import PluginConnection
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.protocols import dra_classic
from kubeskew.kubelet.protocols.calling import Unary
from kubeskew.kubelet.protocols.dra_classic import ClassicService, structured_messages
from kubeskew.kubelet.protocols.errors import RpcError
from kubeskew.kubelet.protocols.semantic_resources import UnknownModelError, handle_messages

_UNIMPLEMENTED = "Unimplemented"
_CALL_SECONDS = 45.0  # of a batch; the single calls before had no limit
_SERVICES = {
    "v1alpha1": dra_classic.V1ALPHA1,
    "v1alpha2": dra_classic.V1ALPHA2,
    "v1alpha3": dra_classic.V1ALPHA3,
}


class HandleUse(NamedTuple):
    """Holds one handle of a claim, for a driver, and the CDI ids that were prepared for the claim."""

    claim: ClaimRef
    handle: Object
    cdi_ids: tuple[str, ...] = ()


class ClassicSocketPlugin(PluginConnection):
    """Calls the newest service that the kubelet knows; since 1.28 an older one if the driver lacks it."""

    def __init__(
        self, driver: str, endpoint: str, service: str, clock: Clock, metrics: KubeletMetrics
    ) -> None:
        """`service` is the version that this kubelet calls first."""
        super().__init__(driver, endpoint)
        self.service = service
        self._service = _SERVICES[service]
        self._clock = clock
        self._metrics = metrics

    async def prepare(self, uses: Sequence[HandleUse]) -> Mapping[str, Sequence[str] | ClaimFailed]:
        """Returns the CDI ids per claim UID. Raises PluginError if the call fails as a whole."""
        answers = await self._both("prepare", uses)
        return {
            uid: ClaimFailed(answer.error) if getattr(answer, "error", "") else list(answer.cdi_devices)
            for uid, answer in answers.items()
        }

    async def unprepare(self, uses: Sequence[HandleUse]) -> Mapping[str, ClaimFailed | None]:
        """Returns None per claim UID, or why not. Raises PluginError if the call fails as a whole."""
        answers = await self._both("unprepare", uses)
        return {
            uid: ClaimFailed(answer.error) if getattr(answer, "error", "") else None
            for uid, answer in answers.items()
        }

    async def node_prepare_resources(self, claims: Sequence[ClaimRef]) -> Any:
        """Raises PluginError: kubelets of classic DRA hand over handles."""
        raise PluginError("no handle is given")

    async def node_unprepare_resources(self, claims: Sequence[ClaimRef]) -> Any:
        """Raises PluginError: kubelets of classic DRA hand over handles."""
        raise PluginError("no handle is given")

    async def _both(self, verb: str, uses: Sequence[HandleUse]) -> Mapping[str, Any]:
        service = self._service
        if not service.batches:
            return {use.claim.uid: await self._single(service, verb, use) for use in uses}
        method = service.prepare if verb == "prepare" else service.unprepare
        claims = [_claim(use, lenient=verb == "unprepare") for use in uses]
        try:
            answer = await self._call(method, method.request(claims=claims), _CALL_SECONDS)
        except RpcError as error:
            if error.go_code != _UNIMPLEMENTED:
                raise PluginError(str(error)) from error
            return await self._one_by_one(verb, uses)
        found: Mapping[str, Any] = answer.claims
        return found

    async def _one_by_one(self, verb: str, uses: Sequence[HandleUse]) -> Mapping[str, Any]:
        """The batch by the older service: what fails is the claim's error."""
        answers: dict[str, Any] = {}
        method = dra_classic.V1ALPHA3.prepare if verb == "prepare" else dra_classic.V1ALPHA3.unprepare
        kind = type(method.response().claims[""])
        for use in uses:
            answer = kind()
            try:
                found = await self._single(dra_classic.V1ALPHA2, verb, use)
                answer = kind(cdi_devices=found.cdi_devices) if verb == "prepare" else kind()
            except PluginError as error:
                answer.error = str(error)
            answers[use.claim.uid] = answer
        return answers

    async def _single(self, service: ClassicService, verb: str, use: HandleUse) -> Any:
        method = service.prepare if verb == "prepare" else service.unprepare
        claim = use.claim
        fields: dict[str, Any] = {
            "namespace": claim.namespace,
            "claim_uid": claim.uid,
            "claim_name": claim.name,
        }
        if verb == "unprepare" and service is dra_classic.V1ALPHA1:
            fields["cdi_devices"] = list(use.cdi_ids)
        else:
            fields["resource_handle"] = use.handle.get("data") or ""
        try:
            return await self._call(method, method.request(**fields), None)
        except RpcError as error:
            raise PluginError(str(error)) from error

    async def _call(self, method: Unary[Any, Any], request: Any, timeout: float | None) -> Any:
        began, code = self._clock.monotonic(), "OK"
        try:
            return await method.call(self.channel, request, timeout=timeout)
        except RpcError as error:
            code = error.go_code
            raise
        finally:
            seconds = self._clock.monotonic() - began
            labels = (self.driver, method.path, code)
            self._metrics.dra_grpc_operations_duration.labels(*labels).observe(seconds)


def _claim(use: HandleUse, *, lenient: bool) -> dict[str, Any]:
    """Returns the fields of a claim's message. Raises PluginError for a handle that a newer scheduler made.

    A `lenient` message leaves such a handle out: what is prepared can be given back by the claim's UID.
    """
    try:
        semantic = handle_messages(use.handle)
    except UnknownModelError as error:
        where = f"{use.claim.namespace}/{use.claim.name}"
        if not lenient:
            raise PluginError(f"the allocation of claim {where} cannot be used: {error}") from error
        semantic = []
    return {
        **use.claim._asdict(),
        "resource_handle": use.handle.get("data") or "",
        "structured_resource_handle": structured_messages(use.handle),
        "semantic_resource_handle": semantic,
    }
