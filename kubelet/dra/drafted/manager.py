"""The kubelet's part of KEP-3063 as drafted: prepares claims by their UID, and gives up reservations.

What is prepared stands in a checkpoint, of which the draft does not speak: a kubelet that is started again
has to unprepare what the one before has prepared. Texts of errors are those of 1.26.

Source: KEP-3063 as drafted, section kubelet.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.device_managers import ContainerDevices, DeviceError
from kubeskew.kubelet.dra.claim_reader import ClaimReader
from kubeskew.kubelet.dra.claims import ClaimCache, ClaimInfo
from kubeskew.kubelet.dra.manager import RECONCILE_SECONDS
from kubeskew.kubelet.dra.plugin import PluginError, PluginRegistry, PreparedDevice
from kubeskew.kubelet.dra.socket_plugin import CALL_SECONDS, PluginConnection
from kubeskew.kubelet.dra.texts import UNTIL_33 as TEXTS
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.protocols import dra_drafted
from kubeskew.kubelet.protocols.grpc_calls import RpcError, Unary

_NOT_FOUND = "NotFound"
log = logging.getLogger(__name__)

_TRIES = 5  # client-go, retry.DefaultRetry
_FIRST_DELAY_SECONDS, _LONGEST_DELAY_SECONDS = 0.5, 122.0  # as for plugin registration


class ResourceNotFoundError(PluginError):
    """The plugin does not know the claim: it may be called again, after longer and longer delays."""


class DraftedSocketPlugin(PluginConnection):
    """Calls the plugin with the UID of a claim. `close` when it is no longer needed."""

    def __init__(
        self, driver: str, endpoint: str, service: str, clock: Clock, metrics: KubeletMetrics
    ) -> None:
        super().__init__(driver, endpoint, clock, metrics)
        self.service = service

    async def prepare(self, uid: str) -> list[str]:
        """Raises PluginError."""
        answer = await self._call(dra_drafted.PREPARE, resource_uid=uid)
        return list(answer.cdi_device)

    async def unprepare(self, uid: str, cdi_ids: Sequence[str]) -> None:
        """Undoes `prepare`; may be called again. Raises PluginError."""
        await self._call(dra_drafted.UNPREPARE, resource_id=uid, cdi_device=list(cdi_ids))

    async def _call(self, method: Unary[Any, Any], **fields: Any) -> Any:
        """The draft gives no limit of time: this is that of later releases."""
        try:
            return await self.call(method, method.request(**fields), CALL_SECONDS)
        except RpcError as error:
            if error.go_code == _NOT_FOUND:
                raise ResourceNotFoundError(str(error)) from error
            raise PluginError(str(error)) from error


@dataclass(slots=True)
class _Delay:
    """A claim that a plugin did not know: what it said, and when it is asked again."""

    seconds: float
    until: float
    error: str


class DraftedDRAManager:
    """Implements `PodDevices` for one node."""

    def __init__(
        self,
        client: APIClient,
        claims: Ref,
        plugins: PluginRegistry[DraftedSocketPlugin],
        cache: ClaimCache,
        clock: Clock,
    ) -> None:
        self._reader = ClaimReader(client, claims, TEXTS)
        self._client = client
        self._claims = claims
        self._plugins = plugins
        self._cache = cache
        self._clock = clock
        self._delays: dict[tuple[str, str], _Delay] = {}  # by call and UID
        # By namespace and name: a claim is not given back while another pod begins to use it.
        self._locks: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)

    # -- prepare

    async def prepare(self, pod: Object) -> None:
        """Prepares the pod's claims, in the order of its spec.

        Raises DeviceError for a claim that is missing or not reserved for the pod, and if a plugin fails.
        """
        for name, owned in _names(pod).values():
            async with self._locks[pod_spec.namespace_of(pod), name]:
                claim = await self._usable(pod, name, owned=owned)
                info = self._remembered(pod, claim)
                if not info.prepared:
                    await self._prepare(info)

    async def _usable(self, pod: Object, name: str, *, owned: bool) -> Object:
        try:
            claim = await self._reader.get(pod, name)
        except DeviceError as error:
            if error.__cause__ is None or not is_reason(error.__cause__, "NotFound"):
                raise
            kind = f"{self._claims.plural[:-1]}.{self._claims.group}"
            why = f'{kind} "{name}" not found'
            text = TEXTS.fetch.format(claim=name, pod=pod_spec.name_of(pod), error=why)
            raise DeviceError(text) from error
        self._reader.check_use(pod, claim, owned=owned)
        return claim

    def _remembered(self, pod: Object, claim: Object) -> ClaimInfo:
        """The claim's entry has the pod as a user, and is on disk when this returns.

        So a call of which nobody knows how it ended is undone, too.
        """
        metadata, uid = claim["metadata"], pod_spec.uid_of(pod)
        info = self._cache.get(metadata["namespace"], metadata["name"])
        if info is not None and info.uid != metadata["uid"]:
            raise DeviceError(
                f"resource claim {metadata['name']}({info.uid}) of an earlier pod is still in use on the node"
            )
        if info is None:
            info = ClaimInfo(metadata["namespace"], metadata["name"], metadata["uid"])
            info.driver = (claim.get("status") or {}).get("driverName") or ""
            info.class_name = claim["spec"].get("resourceClassName") or ""
            info.devices = {info.driver: []}
            self._cache.add(info)
        if uid not in info.pod_uids:
            info.pod_uids.add(uid)
            self._cache.save()
        return info

    async def _prepare(self, info: ClaimInfo) -> None:
        plugin = self._plugin(info)
        about = f"NodePrepareResource failed, claim UID: {info.uid}, claim name: {info.name}, err: "
        self._check_delay("prepare", info, about)
        try:
            ids = await plugin.prepare(info.uid)
        except PluginError as error:
            self._delay("prepare", info, error)
            raise DeviceError(f"{about}{error}") from error
        self._delays.pop(("prepare", info.uid), None)
        info.set_devices(info.driver, [PreparedDevice("", "", cdi_ids=tuple(ids))])
        info.prepared = True
        self._cache.save()

    def _plugin(self, info: ClaimInfo) -> DraftedSocketPlugin:
        try:
            return self._plugins.get(info.driver)
        except DeviceError as error:
            text = f"failed to get DRA Plugin client for plugin name {info.driver}, err={error}"
            raise DeviceError(text) from error

    def _check_delay(self, call: str, info: ClaimInfo, about: str) -> None:
        """Raises DeviceError while a claim that the plugin did not know is not to be asked for again."""
        delay = self._delays.get((call, info.uid))
        if delay is not None and self._clock.monotonic() < delay.until:
            raise DeviceError(f"{about}{delay.error}")

    def _delay(self, call: str, info: ClaimInfo, error: PluginError) -> None:
        key = call, info.uid
        if not isinstance(error, ResourceNotFoundError):
            self._delays.pop(key, None)
            return
        last = self._delays.get(key)
        seconds = _FIRST_DELAY_SECONDS if last is None else min(2 * last.seconds, _LONGEST_DELAY_SECONDS)
        self._delays[key] = _Delay(seconds, self._clock.monotonic() + seconds, str(error))

    # -- use

    def for_container(self, pod: Object, container: Object) -> ContainerDevices:
        """Only the claims that the container names count. Raises DeviceError."""
        namespace, ids, claims = pod_spec.namespace_of(pod), [], _names(pod)
        for entry in (container.get("resources") or {}).get("claims") or ():
            name, _ = claims[entry]
            info = self._cache.get(namespace, name)
            if info is None:
                raise DeviceError(f"unable to get resource for namespace: {namespace}, claim: {name}")
            ids += info.cdi_ids("")
        return ContainerDevices(list(dict.fromkeys(ids)))

    def add_health(self, pod: Object, status: Object) -> None:
        """Does nothing: drivers report no health yet."""

    # -- unprepare

    def uses_claims(self, pod_uid: str) -> bool:
        """Pods of 1.26 wait for nothing but their containers."""
        return False

    async def unprepare(self, pod: Object) -> None:
        """Gives up the pod's claims: those without another user here are unprepared, and then the
        reservation goes, before the pod does. Raises DeviceError."""
        namespace, uid = pod_spec.namespace_of(pod), pod_spec.uid_of(pod)
        await self._release(uid, namespace)
        for name, _ in _names(pod).values():
            await self._unreserve(namespace, name, uid)

    async def _release(self, pod_uid: str, namespace: str) -> list[ClaimInfo]:
        released = [
            info for info in self._cache.infos() if info.namespace == namespace and pod_uid in info.pod_uids
        ]
        for info in released:
            async with self._locks[info.namespace, info.name]:
                if info.pod_uids == {pod_uid}:
                    await self._unprepare(info)
                    self._cache.delete(info.namespace, info.name)
                info.pod_uids.discard(pod_uid)
                self._cache.save()
        return released

    async def _unprepare(self, info: ClaimInfo) -> None:
        plugin, ids = self._plugin(info), info.cdi_ids("")
        about = (
            f"NodeUnprepareResource failed, claim UID: {info.uid}, claim name: {info.name}, "
            f"CDI devices: [{' '.join(ids)}], err: "
        )
        self._check_delay("unprepare", info, about)
        try:
            await plugin.unprepare(info.uid, ids)
        except PluginError as error:
            self._delay("unprepare", info, error)
            raise DeviceError(f"{about}{error}") from error
        for call in ("prepare", "unprepare"):
            self._delays.pop((call, info.uid), None)

    async def _unreserve(self, namespace: str, name: str, pod_uid: str) -> None:
        """Takes the pod from the claim's users; at once again if somebody else has changed the claim."""
        for last in (*[False] * (_TRIES - 1), True):
            try:
                claim = await self._client.get(self._claims, name, namespace)
                if not _is_reserved(claim, pod_uid):
                    return
                users = [user for user in reserved_for(claim) if user.get("uid") != pod_uid]
                status = {key: value for key, value in claim["status"].items() if key != "reservedFor"}
                if users:
                    status["reservedFor"] = users
                await self._client.update(self._claims, {**claim, "status": status}, "status")
                return
            except (StatusError, *CONNECTION_ERRORS) as error:
                if is_reason(error, "NotFound"):
                    return
                if last or not is_reason(error, "Conflict"):
                    raise DeviceError(f"unreserve claim {name}: {error}") from error

    # -- reconcile

    async def reconcile(self, active_pods: Callable[[], set[str]]) -> None:
        """Gives up, every minute, the claims of pods that are gone from the node."""
        while True:
            await self.reconcile_once(active_pods())
            await self._clock.sleep(RECONCILE_SECONDS)

    async def reconcile_once(self, active: set[str]) -> None:
        """Unprepares first, then gives up reservations; what fails is left for the next time."""
        for uid, namespace in self._cache.left_behind(active):
            try:
                for info in await self._release(uid, namespace):
                    await self._unreserve(namespace, info.name, uid)
            except DeviceError as error:
                log.info("giving up the claims of pod %s failed, will retry: %s", uid, error)


def _names(pod: Object) -> dict[str, tuple[str, bool]]:
    """Maps the name of the pod's entry to (the claim's name, whether the pod must own it)."""
    found = {}
    for entry in pod["spec"].get("resourceClaims") or ():
        name = entry.get("resourceClaimName")
        found[entry["name"]] = (name, False) if name else (f"{pod_spec.name_of(pod)}-{entry['name']}", True)
    return found


def _is_reserved(claim: Object, pod_uid: str) -> bool:
    return any(user.get("uid") == pod_uid for user in reserved_for(claim))
