"""The DRA manager up to 1.30, with its calls of drivers, for claims that are already allocated.

Controllers of the drivers have allocated them, or 1.30's scheduler.

Sources: pkg/kubelet/cm/dra/manager.go and plugin/client.go, 1.26 to 1.30.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.device_managers import ContainerDevices, DeviceError
from kubeskew.kubelet.dra.claim_reader import ClaimReader
from kubeskew.kubelet.dra.claims import ClaimCache, ClaimInfo, PodClaim, generated_name, pod_claims
from kubeskew.kubelet.dra.classic.features import ClassicFeatures
from kubeskew.kubelet.dra.driver_calls import answers_of, check_complete, claims_of
from kubeskew.kubelet.dra.plugin import (
    PREPARE,
    UNPREPARE,
    ClaimFailed,
    ClaimRef,
    PluginError,
    PluginRegistry,
    PreparedDevice,
)
from kubeskew.kubelet.dra.socket_plugin import CALL_SECONDS, PluginConnection
from kubeskew.kubelet.dra.texts import UNTIL_33 as TEXTS
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.protocols import dra_classic
from kubeskew.kubelet.protocols.dra_classic import ClassicService, structured_messages
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.semantic_resources import UnknownModelError, handle_messages

_UNIMPLEMENTED = "Unimplemented"
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
        super().__init__(driver, endpoint, clock, metrics)
        self.service = service
        self._service = _SERVICES[service]

    async def prepare(self, uses: Sequence[HandleUse]) -> Mapping[str, Sequence[str] | ClaimFailed]:
        """CDI ids stand under their claim's UID. Raises PluginError if the call fails as a whole."""
        answers = await self._both("prepare", uses)
        return {
            uid: ClaimFailed(answer.error) if getattr(answer, "error", "") else list(answer.cdi_devices)
            for uid, answer in answers.items()
        }

    async def unprepare(self, uses: Sequence[HandleUse]) -> Mapping[str, ClaimFailed | None]:
        """None, or the claim's error, stands under each claim's UID. Raises PluginError if the call fails as
        a whole."""
        answers = await self._both("unprepare", uses)
        return {
            uid: ClaimFailed(answer.error) if getattr(answer, "error", "") else None
            for uid, answer in answers.items()
        }

    async def _both(self, verb: str, uses: Sequence[HandleUse]) -> Mapping[str, Any]:
        service = self._service
        if not service.batches:
            return {use.claim.uid: await self._single(service, verb, use) for use in uses}
        method = service.prepare if verb == "prepare" else service.unprepare
        claims = [_claim(use, lenient=verb == "unprepare") for use in uses]
        try:
            answer = await self.call(method, method.request(claims=claims), CALL_SECONDS)
        except RpcError as error:
            if error.go_code != _UNIMPLEMENTED:
                raise PluginError(str(error)) from error
            return await self._one_by_one(verb, uses)
        found: Mapping[str, Any] = answer.claims
        return found

    async def _one_by_one(self, verb: str, uses: Sequence[HandleUse]) -> Mapping[str, Any]:
        """Calls the older service once per claim; a call that fails becomes the claim's error."""
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
            # Calls of one claim had no limit.
            return await self.call(method, method.request(**fields), None)
        except RpcError as error:
            raise PluginError(str(error)) from error


def _claim(use: HandleUse, *, lenient: bool) -> dict[str, Any]:
    """Raises PluginError for a handle that a newer scheduler made.

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


class ClassicDRAManager:
    """Implements `PodDevices` for one node."""

    def __init__(
        self,
        client: APIClient,
        claims: Ref,
        plugins: PluginRegistry[ClassicSocketPlugin],
        cache: ClaimCache,
        features: ClassicFeatures,
    ) -> None:
        self._reader = ClaimReader(client, claims, TEXTS)
        self._plugins = plugins
        self._cache = cache
        self._features = features

    # -- prepare

    async def prepare(self, pod: Object) -> None:
        """Prepares the pod's claims, in the order of its spec. Raises DeviceError."""
        used = _used_entries(pod)
        if not self._features.skips_unused and not used:
            return
        wanted: list[ClaimInfo] = []
        for claim in self._named(pod, "prepare"):
            info = await self._admitted(pod, claim, used)
            if info is not None and not info.prepared:
                wanted.append(info)
        if wanted and not self._features.notes_late:
            for info in wanted:
                self._cache.add(info)
            self._cache.save()
        await self._call_prepare(wanted)
        self._cache.save()

    def _named(self, pod: Object, verb: str) -> list[PodClaim]:
        generated = _fixed_name if self._features.fixed_names else generated_name
        try:
            return pod_claims(pod, extended=False, generated=generated)
        except DeviceError as error:
            raise DeviceError(f"{verb} resource claim: {error}") from error

    async def _admitted(self, pod: Object, claim: PodClaim, used: frozenset[str]) -> ClaimInfo | None:
        """Adds the pod as a user of the claim; None if there is nothing to prepare. Raises DeviceError."""
        if claim.claim is None:
            return None
        namespace, uid = pod_spec.namespace_of(pod), pod_spec.uid_of(pod)
        info = self._cache.get(namespace, claim.claim)
        if info is not None and not self._features.checks_cached:
            info.pod_uids.add(uid)
            return info
        found = await self._reader.get(pod, claim.claim)
        self._reader.check_use(pod, found, owned=claim.owned)
        if self._features.skips_unused and claim.entry not in used:
            return None
        if info is None:
            info = ClaimInfo(namespace, claim.claim, found["metadata"]["uid"])
            status = found["status"]
            info.driver, info.class_name = status.get("driverName") or "", found["spec"]["resourceClassName"]
            info.handles = _handles(status, self._features.handle_fields)
            info.devices = {driver: [] for driver in _drivers(info)}
        info.pod_uids.add(uid)
        return info

    async def _call_prepare(self, infos: Sequence[ClaimInfo]) -> None:
        if self._features.batches:
            for driver, uses in _batches(infos).items():
                await self._prepare_batch(self._plugin(driver, ": "), uses, infos)
            for info in infos:
                info.prepared = True
            return
        for info in infos:
            for handle in info.handles:
                await self._prepare_one(info, handle)
            info.prepared = True
            self._cache.add(info)
            self._cache.save()

    async def _prepare_batch(
        self, plugin: ClassicSocketPlugin, uses: Sequence[HandleUse], infos: Sequence[ClaimInfo]
    ) -> None:
        answers = await answers_of(TEXTS, PREPARE, plugin.prepare(uses))
        for info, ids in claims_of(TEXTS, PREPARE, answers, infos):
            info.set_devices(plugin.driver, [PreparedDevice("", "", cdi_ids=tuple(ids))])
            self._cache.add(info)
        self._cache.save()
        check_complete(TEXTS, PREPARE, answers, len(uses))

    async def _prepare_one(self, info: ClaimInfo, handle: Object) -> None:
        driver = handle.get("driverName") or info.driver
        plugin = self._plugin(driver, ", err=")
        try:
            answers = await plugin.prepare([HandleUse(info.ref, handle)])
        except PluginError as error:
            data = handle.get("data") or ""
            raise DeviceError(
                f"NodePrepareResource failed, claim UID: {info.uid}, claim name: {info.name}, "
                f"resource handle: {data}, err: {error}"
            ) from error
        ids = answers[info.uid]
        known = info.devices.get(driver) or []
        if not isinstance(ids, ClaimFailed):
            info.set_devices(driver, [*known, PreparedDevice("", "", cdi_ids=tuple(ids))])

    def _plugin(self, driver: str, separator: str) -> ClassicSocketPlugin:
        try:
            return self._plugins.get(driver)
        except DeviceError as error:
            text = f"failed to get DRA Plugin client for plugin name {driver}{separator}{error}"
            raise DeviceError(text) from error

    # -- use

    def for_container(self, pod: Object, container: Object) -> ContainerDevices:
        """Only the claims that the container lists count. Raises DeviceError."""
        listed = {use["name"] for use in (container.get("resources") or {}).get("claims") or ()}
        namespace, ids = pod_spec.namespace_of(pod), []
        for claim in self._named(pod, "list") if listed else ():
            if claim.entry not in listed or claim.claim is None:
                continue
            info = self._cache.get(namespace, claim.claim)
            if info is None:
                raise DeviceError(f"unable to get resource for namespace: {namespace}, claim: {claim.claim}")
            ids += info.cdi_ids("")
        return ContainerDevices(list(dict.fromkeys(ids)))

    def add_health(self, pod: Object, status: Object) -> None:
        """Does nothing: drivers report no health yet."""

    # -- unprepare

    def uses_claims(self, pod_uid: str) -> bool:
        return bool(self._cache.names_of(pod_uid))

    async def unprepare(self, pod: Object) -> None:
        """Gives up the pod's use of its claims; those without another user are unprepared. Raises
        DeviceError."""
        namespace, uid = pod_spec.namespace_of(pod), pod_spec.uid_of(pod)
        last: list[ClaimInfo] = []
        for claim in self._named(pod, "unprepare"):
            info = self._cache.get(namespace, claim.claim) if claim.claim is not None else None
            if info is None or uid not in info.pod_uids:
                continue
            if len(info.pod_uids) > 1:
                info.pod_uids.discard(uid)
                continue
            if self._features.reads_to_unprepare:
                await self._reader.get(pod, info.name)
            last.append(info)
        await self._call_unprepare(last)
        for info in last:
            self._cache.delete(info.namespace, info.name)
        self._cache.save()

    async def _call_unprepare(self, infos: Sequence[ClaimInfo]) -> None:
        if self._features.batches:
            for driver, uses in _batches(infos).items():
                await self._unprepare_batch(self._plugin(driver, ": "), uses, infos)
            return
        for info in infos:
            for handle in info.handles:
                plugin = self._plugin(handle.get("driverName") or info.driver, ", err=")
                ids = tuple(info.cdi_ids(""))
                try:
                    await plugin.unprepare([HandleUse(info.ref, handle, ids)])
                except PluginError as error:
                    raise DeviceError(
                        f"NodeUnprepareResource failed, pod: {info.name}, claim UID: {info.uid}, "
                        f"claim name: {info.name}, CDI devices: [{' '.join(ids)}], err: {error}"
                    ) from error

    async def _unprepare_batch(
        self, plugin: ClassicSocketPlugin, uses: Sequence[HandleUse], infos: Sequence[ClaimInfo]
    ) -> None:
        answers = await answers_of(TEXTS, UNPREPARE, plugin.unprepare(uses))
        # Upstream prints a nil error for a claim that is refused.
        printed = {uid: answer and ClaimFailed("%!s(<nil>)") for uid, answer in answers.items()}
        for _ in claims_of(TEXTS, UNPREPARE, printed, infos):
            pass  # an answer without a failure says nothing more
        check_complete(TEXTS, UNPREPARE, answers, len(uses))

    # -- reconcile

    async def reconcile(self, active_pods: Callable[[], set[str]]) -> None:
        """Does nothing: kubelets look for what pods leave behind since 1.31."""


def _fixed_name(pod: Object, entry: Object) -> str:
    return f"{pod_spec.name_of(pod)}-{entry['name']}"


def _used_entries(pod: Object) -> frozenset[str]:
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return frozenset(
        use["name"]
        for container in containers
        for use in (container.get("resources") or {}).get("claims") or ()
    )


def _handles(status: Object, known: frozenset[str]) -> tuple[Object, ...]:
    """Handles keep the fields that this release decodes.

    Without handles, the claim's driver has one without data.
    """
    allocation = status.get("allocation") or {}
    if allocation.get("resourceHandle") is not None:  # 1.26
        return ({"driverName": status.get("driverName") or "", "data": allocation["resourceHandle"]},)
    handles = [
        {field: value for field, value in handle.items() if field in known}
        for handle in allocation.get("resourceHandles") or ()
    ]
    return tuple(handles) or ({"driverName": status.get("driverName") or "", "data": ""},)


def _drivers(info: ClaimInfo) -> list[str]:
    return list(dict.fromkeys(handle.get("driverName") or info.driver for handle in info.handles))


def _batches(infos: Sequence[ClaimInfo]) -> dict[str, list[HandleUse]]:
    batches: dict[str, list[HandleUse]] = {}
    for info in infos:
        for handle in info.handles:
            driver = handle.get("driverName") or info.driver
            batches.setdefault(driver, []).append(HandleUse(info.ref, handle, tuple(info.cdi_ids(""))))
    return batches
