"""The DRA manager prepares a pod's claims before its sandbox is made, and gives them back after its end.

It checks all claims first; only then the pod is noted as their user, in memory and in the checkpoint. So a
pod that fails leaves nothing behind (up to 1.33 the two went together, claim by claim). Then each driver is
called once for all its claims, and its answer is checked against the request.

Source: pkg/kubelet/cm/dra/manager.go.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.device_managers import ContainerDevices, DeviceError
from kubeskew.kubelet.dra.claim_reader import ClaimReader
from kubeskew.kubelet.dra.claims import (
    ClaimCache,
    ClaimInfo,
    PodClaim,
    container_requests,
    drivers_of,
    extended_claim,
    pod_claims,
    skipped_operations,
)
from kubeskew.kubelet.dra.driver_calls import answers_of, check_complete, claims_of
from kubeskew.kubelet.dra.health import HealthCache, add_health
from kubeskew.kubelet.dra.plugin import PREPARE, UNPREPARE, DRAPlugin, PluginRegistry
from kubeskew.kubelet.dra.texts import ErrorTexts
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.metrics import ANY_DRIVER, KubeletMetrics

log = logging.getLogger(__name__)

RECONCILE_SECONDS = 60.0


class DRAManager:
    """Implements `PodDevices` for one node."""

    def __init__(
        self,
        node_name: str,
        client: APIClient,
        claims: Ref,
        plugins: PluginRegistry[DRAPlugin],
        cache: ClaimCache,
        health: HealthCache,
        features: KubeletFeatures,
        texts: ErrorTexts,
        clock: Clock,
        metrics: KubeletMetrics,
    ) -> None:
        self._node_name = node_name
        self._reader = ClaimReader(client, claims, texts, groups=features.workload_resource_claims)
        self._plugins = plugins
        self._cache = cache
        self._health = health
        self._extended = features.extended_resources
        self._knows_skips = features.dra_lists_skipped
        self._may_skip = features.optional_node_operations
        self._validates_first = features.dra_validates_first
        self._features = features
        self._reports_health = features.dra_reports_health
        self._reports_message = features.resource_health_message
        self._texts = texts
        self._inverts_errors = features.dra_faults.inverts_errors
        self._clock = clock
        self._metrics = metrics

    # -- prepare

    async def prepare(self, pod: Object) -> None:
        await self._measured("PrepareResources", self._texts.prepare, self._prepare(pod))

    async def _prepare(self, pod: Object) -> None:
        wanted: list[ClaimInfo] = []
        try:
            claims = pod_claims(pod, extended=self._extended)
        except DeviceError as error:
            raise DeviceError(self._texts.prepare_name.format(error=error)) from error
        if self._validates_first:
            found = [info for claim in claims if (info := await self._validated(pod, claim)) is not None]
            for info in found:
                wanted.append(self._remembered(pod, info))
                if wanted[-1].prepared and self._features.dra_stops_at_prepared:
                    return
        else:
            for claim in claims:
                info = await self._validated(pod, claim)
                if info is not None:
                    wanted.append(self._remembered(pod, info))
        new = [info for info in wanted if not info.prepared]
        for driver, infos in self._batches(PREPARE, new).items():
            await self._call_prepare(self._plugin(driver, self._texts.prepare_client), infos)
        for info in new:
            info.prepared = True
        if new:
            self._save()

    async def _validated(self, pod: Object, claim: PodClaim) -> ClaimInfo | None:
        """Reads the claim and checks that the pod may use it; None if the pod needs none.

        Remembers nothing. Raises DeviceError.
        """
        if claim.claim is None:
            return None
        namespace = pod_spec.namespace_of(pod)
        found = await self._reader.get(pod, claim.claim)
        self._reader.check_use(pod, found, owned=claim.owned)
        uid = found["metadata"]["uid"]
        if not found["status"].get("allocation"):
            text = self._texts.claim.format(claim=claim.claim, namespace=namespace, error="not allocated")
            raise DeviceError(text)
        drivers, skips = drivers_of(found), skipped_operations(found) if self._knows_skips else {}
        if skips and not self._may_skip:
            text = "DRAOptionalNodeOperations feature gate is disabled on kubelet"
            raise DeviceError(self._texts.claim.format(claim=claim.claim, namespace=namespace, error=text))
        if self._validates_first:
            # Even a claim that is prepared already needs its drivers; without them this is an error.
            for driver in drivers:
                if PREPARE not in skips.get(driver, ()):
                    self._plugins.get(driver)
        return ClaimInfo(namespace, claim.claim, uid, devices={driver: [] for driver in drivers}, skips=skips)

    def _remembered(self, pod: Object, found: ClaimInfo) -> ClaimInfo:
        """The cached claim has the pod as a user; but for a bug it is on disk when this returns."""
        info = self._cache.get(found.namespace, found.name)
        if info is None:
            info = found
            self._cache.add(info)
        elif info.uid != found.uid and not self._features.dra_ignores_claim_uid:
            raise DeviceError(
                f"old ResourceClaim with same name {found.name} and different UID {info.uid} still exists "
                "(previous pod force-deleted?!)"
            )
        elif info.unpreparing and not self._features.dra_shares_unpreparing:
            # Pull request 140527 of 1.37; its wording is a guess.
            raise DeviceError(f"ResourceClaim {found.name} is being unprepared")
        info.pod_uids.add(pod_spec.uid_of(pod))
        if not self._features.dra_notes_late:
            self._save()
        return info

    def _batches(self, call: str, infos: Sequence[ClaimInfo]) -> dict[str, list[ClaimInfo]]:
        batches: dict[str, list[ClaimInfo]] = {}
        for info in infos:
            for driver in info.devices:
                if call in info.skips.get(driver, ()):
                    self._metrics.dra_skips[call].labels(driver).inc()
                else:
                    batches.setdefault(driver, []).append(info)
        return batches

    def _plugin(self, driver: str, text: str) -> DRAPlugin:
        try:
            return self._plugins.get(driver)
        except DeviceError as error:
            raise DeviceError(text.format(driver=driver, error=error)) from error

    async def _call_prepare(self, plugin: DRAPlugin, infos: Sequence[ClaimInfo]) -> None:
        answering = plugin.node_prepare_resources([info.ref for info in infos])
        answers = await answers_of(self._texts, PREPARE, answering)
        for info, answer in claims_of(self._texts, PREPARE, answers, infos):
            before = info.devices[plugin.driver] if self._features.dra_faults.adds_prepared else []
            info.set_devices(plugin.driver, [*before, *answer])
        check_complete(self._texts, PREPARE, answers, len(infos))

    # -- use

    def for_container(self, pod: Object, container: Object) -> ContainerDevices:
        ids: list[str] = []
        namespace = pod_spec.namespace_of(pod)
        try:
            implicit = self._features.dra_injects_implicit
            requests = [*container_requests(pod, container, extended=self._extended, implicit=implicit)]
        except DeviceError as error:
            raise DeviceError(self._texts.list_names.format(error=error)) from error
        extended_name = ((extended_claim(pod) if self._extended else None) or {}).get("resourceClaimName")
        for claim, request in requests:
            info = self._cache.get(namespace, claim)
            if info is None:
                text = self._texts.no_extended_info if claim == extended_name else self._texts.no_info
                raise DeviceError(text.format(claim=claim, namespace=namespace))
            ids += info.cdi_ids(request)
        if extended_name is not None and self._cache.get(namespace, extended_name) is None:
            # Searched for every container, even one that does not use the claim.
            raise DeviceError(self._texts.no_extended_info.format(claim=extended_name, namespace=namespace))
        return ContainerDevices(list(dict.fromkeys(ids)))

    def add_health(self, pod: Object, status: Object) -> None:
        if self._reports_health:
            add_health(
                pod,
                status,
                self._cache,
                self._health,
                with_message=self._reports_message,
                by_entry=self._features.dra_faults.health_by_pod_claim_name,
            )

    # -- unprepare

    async def unprepare(self, pod: Object) -> None:
        await self._measured("UnprepareResources", self._texts.unprepare, self._unprepare_pod(pod))

    async def _unprepare_pod(self, pod: Object) -> None:
        names: Sequence[str] = ()
        if not self._features.dra_unprepares_by_status:
            names = self._cache.names_of(pod_spec.uid_of(pod))
        if not names:
            try:
                claims = pod_claims(pod, extended=self._extended)
            except DeviceError as error:
                raise DeviceError(self._texts.unprepare_name.format(error=error)) from error
            names = [claim.claim for claim in claims if claim.claim is not None]
        await self._unprepare(pod_spec.uid_of(pod), pod_spec.namespace_of(pod), names)

    async def _unprepare(self, pod_uid: str, namespace: str, names: Sequence[str]) -> None:
        """Ends the pod's use of the claims; those without another user are unprepared.

        Before pull request 140212 a claim's only user also lost it to a pod that never got to use it.
        """
        last: list[ClaimInfo] = []
        for name in names:
            info = self._cache.get(namespace, name)
            if info is None:
                continue
            if pod_uid not in info.pod_uids and not self._features.dra_unprepares_for_non_users:
                continue
            if len(info.pod_uids) > 1:
                info.pod_uids.discard(pod_uid)
            else:
                last.append(info)
        for info in last:
            info.unpreparing = True
        try:
            for driver, infos in self._batches(UNPREPARE, last).items():
                await self._call_unprepare(self._plugin(driver, self._texts.unprepare_client), infos)
        finally:
            for info in last:
                info.unpreparing = False
        for info in last:
            self._cache.delete(info.namespace, info.name)
        self._save()

    async def _call_unprepare(self, plugin: DRAPlugin, infos: Sequence[ClaimInfo]) -> None:
        answering = plugin.node_unprepare_resources([info.ref for info in infos])
        answers = await answers_of(self._texts, UNPREPARE, answering)
        for _ in claims_of(self._texts, UNPREPARE, answers, infos):
            pass  # an answer without a failure says nothing more
        check_complete(self._texts, UNPREPARE, answers, len(infos))

    def uses_claims(self, pod_uid: str) -> bool:
        return bool(self._cache.names_of(pod_uid))

    # -- reconcile

    async def reconcile(self, active_pods: Callable[[], set[str]]) -> None:
        """Unprepares, every minute, claims of pods that are gone from the node. Not gated, as upstream, whose
        first look comes before all pods are known, and does nothing."""
        while True:
            await self._clock.sleep(RECONCILE_SECONDS)
            await self.reconcile_once(active_pods())

    async def reconcile_once(self, active: set[str]) -> None:
        for (pod_uid, namespace), names in self._cache.left_behind(active).items():
            try:
                await self._unprepare(pod_uid, namespace, names)
            except DeviceError as error:
                log.info("unpreparing resources of pod %s failed, will retry: %s", pod_uid, error)

    # --

    def _save(self) -> None:
        self._cache.save()
        prepared = [info for info in self._cache.infos() if info.prepared]
        in_use = Counter(driver for info in prepared for driver in info.devices)
        in_use[ANY_DRIVER] = len(prepared)
        self._metrics.set_claims_in_use(self._node_name, in_use)

    async def _measured(self, operation: str, text: str, work: Awaitable[None]) -> None:
        """Awaits the work, puts the operation's text around its errors, and counts both."""
        began, failed = self._clock.monotonic(), True
        try:
            await work
            failed = False
        except DeviceError as error:
            raise DeviceError(text.format(error=error)) from error
        finally:
            seconds = self._clock.monotonic() - began
            labels = (operation, str(failed != (operation in self._inverts_errors)).lower())
            self._metrics.dra_operations_duration.labels(*labels).observe(seconds)
