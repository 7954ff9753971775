"""Manages the pods of one node: follows the API, admits pods, runs a worker for each, cleans up lost ones.

For each static pod of the node there is a mirror pod at the API server. Upstream's kubelet runs a static pod
whether or not there is a server, and the mirror only shows it. Here the mirror is what is run, as any pod of
the node; so its containers end with it, and start with the next one.

Sources: pkg/kubelet/pod/mirror_client.go, pkg/kubelet/config/common.go.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Clock, timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.allocation import NODE_AFFINITY, FitCheck, Rejection, admit
from kubeskew.kubelet.containers.sandbox import Sandbox
from kubeskew.kubelet.device_managers import DeviceError, EmptyPodSharedPoolError
from kubeskew.kubelet.pods.pod_worker import PodWorker
from kubeskew.kubelet.pods.services import NodeServices
from kubeskew.kubelet.sysctls import forbidden_sysctl
from kubeskew.kubelet.volumes.security_context import app_armor_refusal

log = logging.getLogger(__name__)

HASH, MIRROR = "kubernetes.io/config.hash", "kubernetes.io/config.mirror"
SEEN, SOURCE = "kubernetes.io/config.seen", "kubernetes.io/config.source"
_RETRY_SECONDS = 1.0
_CLEANING_SECONDS = 30.0
# Static pods stay on a node in trouble (config/common.go).
_TOLERATION = {"operator": "Exists", "effect": "NoExecute"}


def mirror_of(manifest: Mapping[str, Any], node_name: str, node_uid: str, seen: str) -> Object:
    """Makes a static pod's mirror.

    Its hash has upstream's form, 32 hexadecimal digits, of other bytes.
    """
    metadata, spec = manifest["metadata"], manifest["spec"]
    text = json.dumps([manifest, node_name], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    annotations = {HASH: digest, MIRROR: digest, SEEN: seen, SOURCE: "file"}
    owner = {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node_uid, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "name": f"{metadata['name']}-{node_name}".lower(),
            "namespace": metadata.get("namespace") or "default",
            "annotations": {**(metadata.get("annotations") or {}), **annotations},
            "ownerReferences": [owner],
        },
        "spec": {
            **spec,
            "nodeName": node_name,
            "tolerations": [*(spec.get("tolerations") or []), dict(_TOLERATION)],
        },
    }


class StaticPods:
    """The static pods of one node. `run` it once the node is registered."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        node_name: str,
        pods: Informer,
        manifests: Sequence[Mapping[str, Any]],
    ) -> None:
        """`pods` are those of the node; the informer is started elsewhere."""
        self._client = client
        self._clock = clock
        self._node_name = node_name
        self._pods = pods
        self._manifests = manifests
        self._changed = asyncio.Event()
        self._changed.set()
        pods.add_handler(self._seen, lambda _old, new: self._seen(new), self._seen)

    def replace(self, manifests: Sequence[Mapping[str, Any]]) -> None:
        self._manifests = manifests
        self._changed.set()

    def _seen(self, pod: Object) -> None:
        if MIRROR in (pod["metadata"].get("annotations") or {}):
            self._changed.set()

    async def run(self, node_uid: str) -> None:
        """Makes the mirrors what the manifests say, whenever either changes; does not end."""
        seen = timestamp(self._clock.now())
        while True:
            await self._changed.wait()
            self._changed.clear()
            wanted = [mirror_of(each, self._node_name, node_uid, seen) for each in self._manifests]
            try:
                await self._reconcile({_key(pod): pod for pod in wanted})
            except (StatusError, *CONNECTION_ERRORS) as error:
                log.warning("mirror pods of node %s: %s", self._node_name, error)
                await self._clock.sleep(_RETRY_SECONDS)
                self._changed.set()

    async def _reconcile(self, wanted: dict[tuple[str, str], Object]) -> None:
        there = {_key(pod): pod for pod in self._pods.list()}
        for key, pod in there.items():
            mirrored = (pod["metadata"].get("annotations") or {}).get(MIRROR)
            if mirrored is None or pod_spec.is_deleted(pod):
                continue  # the event of its end comes here, too
            if key not in wanted or wanted[key]["metadata"]["annotations"][MIRROR] != mirrored:
                await self._delete(pod)
        for key, pod in wanted.items():
            if key not in there:
                await self._create(pod)

    async def _create(self, pod: Object) -> None:
        try:
            await self._client.create(PODS, pod, pod["metadata"]["namespace"])
        except StatusError as error:
            if error.reason != "AlreadyExists":  # its event is on the way
                raise

    async def _delete(self, pod: Object) -> None:
        metadata = pod["metadata"]
        try:
            await self._client.delete(
                *(PODS, metadata["name"], metadata["namespace"]),
                grace_period=0,
                preconditions={"uid": metadata["uid"]},
            )
        except StatusError as error:
            if error.code not in (404, 409):  # it is gone, or another has its name
                raise


def _key(pod: Object) -> tuple[str, str]:
    return pod_spec.namespace_of(pod), pod_spec.name_of(pod)


class PodManager:
    """Manages a node's pods.

    `start` it once the informer has synced; `stop` leaves all containers running.
    """

    def __init__(
        self,
        informer: Informer,
        services: NodeServices,
        node: Callable[[], Object],
        refresh_node: Callable[[], Awaitable[None]],
    ) -> None:
        self._informer = informer
        self._refresh_node = refresh_node
        self._services = services
        self._node = node
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._started = False
        self._waiting: set[str] = set()  # pods that are not admitted yet
        self._arrivals: asyncio.Queue[PodWorker | None] = asyncio.Queue()  # None ends the first pods
        self._admitting: asyncio.Task[None] | None = None
        self._cleaning: asyncio.Task[None] | None = None

    def active_uids(self) -> set[str]:
        return {uid for uid, worker in self._workers.items() if worker.active}

    def active_containers(self) -> dict[str, set[str]]:
        active = [worker.pod for worker in self._workers.values() if worker.active]
        return {
            pod_spec.uid_of(pod): {each["name"] for each in pod_spec.all_containers(pod)} for pod in active
        }

    def pods(self) -> list[Object]:
        """Each known pod has its newest status."""
        statuses = self._services.statuses
        return [{**worker.pod, "status": statuses.current(worker.pod)} for worker in self._workers.values()]

    def active_pods(self) -> list[Object]:
        active = self.active_uids()
        return [pod for pod in self.pods() if pod_spec.uid_of(pod) in active]

    def _wake(self, uid: str) -> None:
        worker = self._workers.get(uid)
        if worker is not None:
            worker.wake()

    def wake(self, uids: Collection[str]) -> None:
        for uid in uids:
            self._wake(uid)

    async def start(self) -> None:
        """Takes over the pods that are there: oldest first, in the order of their admission."""
        self._informer.add_handler(self._added, self._updated, self._deleted)
        self._informer.start()
        await self._informer.synced()
        self._started = True
        self._services.runtime.on_change = self._wake
        pods = sorted(self._informer.list(), key=_age)
        self._services.allocations.retain({pod_spec.uid_of(pod) for pod in pods})
        for pod in pods:
            self._add(pod)
        self._arrivals.put_nowait(None)
        self._admitting = asyncio.create_task(self._admit_all(), name="pod admission")
        for sandbox in self._services.runtime.sandboxes():
            if sandbox.pod_uid not in self._workers:
                log.info("pod %s/%s went while no kubelet ran", sandbox.namespace, sandbox.name)
                self._end_orphan(sandbox)
        if self._services.volumes.are_directories:
            self._cleaning = asyncio.create_task(self._clean_up(), name="directories of pods")

    async def _clean_up(self) -> None:
        """Removes from time to time what is left of pods that are gone; does not end."""
        while True:
            known = {sandbox.pod_uid for sandbox in self._services.runtime.sandboxes()}
            try:
                await self._services.volumes.clean_up(known | set(self._workers))
            except Exception:
                log.exception("cannot clean up directories of pods")
            await self._services.clock.sleep(_CLEANING_SECONDS)

    async def stop(self) -> None:
        """Stops working; containers go on."""
        self._started = False
        await self._informer.stop()
        admitting = [self._admitting] if self._admitting is not None else []
        cleaning = [self._cleaning] if self._cleaning is not None else []
        tasks = [*admitting, *cleaning, *self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- news from the API

    def _added(self, pod: Object) -> None:
        if self._started:
            self._add(pod)

    def _updated(self, old: Object, pod: Object) -> None:
        """A pod that is only listed again is no update: pkg/kubelet/config/config.go, 1.36."""
        if not self._started or old == pod:
            return
        worker = self._workers.get(pod_spec.uid_of(pod))
        if worker is not None:
            worker.update(pod)
        else:
            self._add(pod)

    def _deleted(self, pod: Object) -> None:
        worker = self._workers.get(pod_spec.uid_of(pod))
        if worker is not None:
            worker.remove()

    def _add(self, pod: Object) -> None:
        uid = pod_spec.uid_of(pod)
        if uid in self._workers:
            return
        self._forget_namesakes(pod)
        worker = PodWorker(pod, self._services)
        worker.fit_check = FitCheck(
            lambda wanted: self._verdict(wanted, alone=False),
            lambda wanted: self._verdict(wanted, alone=True),
        )
        self._workers[uid] = worker
        admits = worker.active or self._services.features.admission.readmits_ended
        if admits and not self._spares_admission(pod):
            self._waiting.add(uid)
            self._arrivals.put_nowait(worker)
        else:
            self._run(worker)

    def _spares_admission(self, pod: Object) -> bool:
        """A pod that is deleted already is not admitted. Upstream refuses it first, and then ends it."""
        return pod_spec.is_deleted(pod) and not self._services.features.admission.forgets_rejected

    def _forget_namesakes(self, pod: Object) -> None:
        """Forgets pods with the name of a new one: they are gone, even if no event said so."""
        name = (pod_spec.namespace_of(pod), pod_spec.name_of(pod))
        for worker in self._workers.values():
            if (pod_spec.namespace_of(worker.pod), pod_spec.name_of(worker.pod)) == name:
                worker.remove()

    async def _admit_all(self) -> None:
        while True:
            worker = await self._arrivals.get()
            if worker is None:
                self._services.plugins.sources_ready()
                self._services.managers.sources_ready()
                continue
            try:
                await self._admit(worker)
            except Exception:
                log.exception("cannot admit pod %s", pod_spec.full_name(worker.pod))
            self._waiting.discard(worker.uid)
            self._run(worker)

    async def _admit(self, worker: PodWorker) -> None:
        if worker.gone or self._spares_admission(worker.pod):
            return  # nothing of the pod has begun
        pod = worker.allocated_pod
        rejection = self._with_sysctls(pod) or await self._without_devices(pod)
        rejection = rejection or await self._fresh_verdict(pod)
        rejection = rejection or self._with_profiles(pod)
        rejection = rejection or self._unwritten(pod)
        if rejection is not None:
            log.warning("pod %s: %s", pod_spec.full_name(worker.pod), rejection.message)
            worker.reject(rejection.reason, rejection.message)

    def _unwritten(self, pod: Object) -> Rejection | None:
        """Gives the pod its resources, or a reason if they cannot be written."""
        try:
            self._services.allocations.give(pod)
        except OSError as error:
            return Rejection("UnexpectedAdmissionError", f"Failed to store the pod's allocation: {error}")
        return None

    def _with_sysctls(self, pod: Object) -> Rejection | None:
        """A pod is refused that sets a kernel parameter which it may not set; nothing is allocated to it
        then."""
        rules = self._services.features.admission
        text = forbidden_sysctl(pod, rules.safe_sysctls, rules.sysctl_namespaces)
        return Rejection("SysctlForbidden", text) if text else None

    def _with_profiles(self, pod: Object) -> Rejection | None:
        """A pod whose programs run is refused if it wants AppArmor, which no node here has."""
        text = app_armor_refusal(pod) if self._services.runtime.runs_programs else ""
        return Rejection("AppArmor", text) if text else None

    async def _without_devices(self, pod: Object) -> Rejection | None:
        """Allocates plugin devices, exclusive CPUs and memory to the pod, or gives a reason if that fails."""
        try:
            await self._services.plugins.admit(pod)
            self._services.managers.admit(pod)
        except EmptyPodSharedPoolError as error:
            return Rejection("EmptyPodSharedPoolError", str(error))
        except DeviceError as error:
            return Rejection(
                "UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected"
            )
        return None

    async def _fresh_verdict(self, pod: Object) -> Rejection | None:
        """None means that the node takes the pod; its affinity is checked again with the node as it is
        now."""
        rejection = self._verdict(pod, alone=False)
        cached = self._services.features.admission.affinity_by_cached_node
        if rejection is None or rejection.reason != NODE_AFFINITY or cached:
            return rejection
        try:
            await self._refresh_node()
        except (StatusError, *CONNECTION_ERRORS):
            return rejection
        return self._verdict(pod, alone=False)

    def _verdict(self, pod: Object, *, alone: bool) -> Rejection | None:
        """None means that the node takes the pod, next to the others on it or if it were alone."""
        workers = () if alone else self._workers.values()
        uid = pod_spec.uid_of(pod)
        besides = self._waiting | {uid}
        others = [worker.allocated_pod for worker in workers if worker.active and worker.uid not in besides]
        return admit(
            pod,
            self._node(),
            others,
            self._services.features.admission,
            plugged=self._services.plugins.allocated_for(pod),
        )

    def _end_orphan(self, sandbox: Sandbox) -> None:
        """Stops the containers of a pod that the API no longer has."""
        metadata = {"uid": sandbox.pod_uid, "namespace": sandbox.namespace, "name": sandbox.name}
        worker = PodWorker(
            {"metadata": metadata, "spec": {}, "kind": "Pod", "apiVersion": "v1"}, self._services
        )
        worker.remove()
        self._run(worker)

    def _run(self, worker: PodWorker) -> None:
        uid = worker.uid
        self._workers[uid] = worker
        task = asyncio.create_task(worker.run(), name=f"pod {pod_spec.full_name(worker.pod)}")
        self._tasks[uid] = task
        task.add_done_callback(lambda _: self._ended(uid))

    def _ended(self, uid: str) -> None:
        self._workers.pop(uid, None)
        self._tasks.pop(uid, None)


def _age(pod: Object) -> tuple[str, str]:
    return pod["metadata"].get("creationTimestamp") or "", pod_spec.name_of(pod)
