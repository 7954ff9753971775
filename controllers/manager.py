"""The controller manager: all controllers by name, run for as long as this process leads, each with its own
client, and with a service account of its own as with --use-service-account-credentials.

Source: k8s.io/controller-manager/pkg/clientbuilder/client_builder_dynamic.go and
cmd/kube-controller-manager/app, 1.36.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.kubeconfig import Kubeconfig, load_kubeconfig
from kubeskew.apimachinery.client.leader import LeaderElector
from kubeskew.apimachinery.client.refs import SERVICE_ACCOUNTS
from kubeskew.apimachinery.client.rest import APIClient, Dial, dial, user_agent
from kubeskew.apimachinery.client.transport import MAX_REQUESTS, Request, Response, Transport
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.features import Condition, always, gate, since
from kubeskew.apimachinery.golang.known_fields import Decode, as_is, decoder
from kubeskew.apimachinery.metrics.series import QueueMetrics
from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.controllers.autoscaling.controller import HorizontalController
from kubeskew.controllers.certificates.controllers import (
    ApprovingController,
    CleaningController,
    SigningController,
)
from kubeskew.controllers.clusterroleaggregation import RoleAggregationController
from kubeskew.controllers.cronjob.controller import CronJobController
from kubeskew.controllers.daemonset.controller import DaemonSetController
from kubeskew.controllers.deployment.controller import DeploymentController
from kubeskew.controllers.devicetaints.controller import DeviceTaintEvictionController
from kubeskew.controllers.disruption.controller import DisruptionController
from kubeskew.controllers.endpoints.controller import EndpointsController
from kubeskew.controllers.endpointslice import EndpointSliceController
from kubeskew.controllers.endpointslicemirroring import EndpointSliceMirroringController
from kubeskew.controllers.framework.base import Controller, ControllerContext
from kubeskew.controllers.garbagecollector.controller import GarbageCollector
from kubeskew.controllers.job.controller import JobController
from kubeskew.controllers.job.ttl import TTLAfterFinishedController
from kubeskew.controllers.namespace.controller import NamespaceController
from kubeskew.controllers.nodelifecycle.eviction import TaintEvictionController
from kubeskew.controllers.nodelifecycle.health import NodeLifecycleController
from kubeskew.controllers.nodettl import NodeTTLController
from kubeskew.controllers.podgc import PodGarbageCollector
from kubeskew.controllers.poolstatus.controller import PoolStatusController
from kubeskew.controllers.replicaset.controller import ReplicaSetController, ReplicationManager
from kubeskew.controllers.resourceclaim.generations import claim_controllers
from kubeskew.controllers.resourcequota.controller import ResourceQuotaController
from kubeskew.controllers.serviceaccount import (
    AccountTokensController,
    RootCAPublisher,
    ServiceAccountController,
)
from kubeskew.controllers.servicecidrs.controller import ServiceCIDRController
from kubeskew.controllers.statefulset.controller import StatefulSetController
from kubeskew.controllers.storageversionmigration.controller import StorageVersionMigrationController
from kubeskew.controllers.volumes.binder import PersistentVolumeController
from kubeskew.controllers.volumes.ephemeral import EphemeralVolumeController
from kubeskew.controllers.volumes.protection import (
    AttributesClassProtectionController,
    ClaimProtectionController,
    PodGroupProtectionController,
    VolumeProtectionController,
)

NAMESPACE = "kube-system"
_SECONDS = 3600
_RENEW_SECONDS = 0.8 * _SECONDS
_UNAUTHORIZED = 401

# The accounts whose names differ from their controllers'.
_ACCOUNTS = {
    "certificatesigningrequest-approving-controller": "certificate-controller",
    "certificatesigningrequest-cleaner-controller": "certificate-controller",
    "certificatesigningrequest-signing-controller": "certificate-controller",
    "daemonset-controller": "daemon-set-controller",
    "endpoints-controller": "endpoint-controller",
    "endpointslice-mirroring-controller": "endpointslicemirroring-controller",
    "garbage-collector-controller": "generic-garbage-collector",
    "horizontal-pod-autoscaler-controller": "horizontal-pod-autoscaler",
    "node-lifecycle-controller": "node-controller",
    "persistentvolume-binder-controller": "persistent-volume-binder",
    "persistentvolume-protection-controller": "pv-protection-controller",
    "persistentvolumeclaim-protection-controller": "pvc-protection-controller",
    "pod-garbage-collector-controller": "pod-garbage-collector",
    "replicationcontroller-controller": "replication-controller",
    "resourceclaim-controller": "resource-claim-controller",
    "root-ca-certificate-publisher-controller": "root-ca-cert-publisher",
    "service-cidr-controller": "service-cidrs-controller",
    "serviceaccount-controller": "service-account-controller",
    "taint-eviction-controller": "node-controller",
}
Wrap = Callable[[Transport, str], Transport]

# Upstream gives these the manager's own credentials.
_OWN = frozenset({"serviceaccount-token-controller"})
log = logging.getLogger(__name__)

LEASE_NAMESPACE, LEASE_NAME = "kube-system", "kube-controller-manager"
_COMPONENT = "kube-controller-manager"

_ALWAYS: Condition = always(True)

# The controllers, in the order in which they start, with what each depends on.
CONTROLLERS: Sequence[tuple[type[Controller], Condition]] = (
    (AccountTokensController, _ALWAYS),
    (ServiceAccountController, _ALWAYS),
    (RootCAPublisher, _ALWAYS),
    (NamespaceController, _ALWAYS),
    (GarbageCollector, _ALWAYS),
    (DeploymentController, _ALWAYS),
    (ReplicaSetController, _ALWAYS),
    (ReplicationManager, _ALWAYS),
    (StatefulSetController, _ALWAYS),
    (DaemonSetController, _ALWAYS),
    (JobController, _ALWAYS),
    (CronJobController, _ALWAYS),
    (TTLAfterFinishedController, _ALWAYS),
    (HorizontalController, _ALWAYS),
    (DisruptionController, _ALWAYS),
    (PersistentVolumeController, _ALWAYS),
    (ClaimProtectionController, _ALWAYS),
    (VolumeProtectionController, _ALWAYS),
    (AttributesClassProtectionController, since(33) & gate("VolumeAttributesClass")),
    (PodGroupProtectionController, since(36) & gate("GenericWorkload")),
    (EphemeralVolumeController, _ALWAYS),
    *((kind, gate("DynamicResourceAllocation") & condition) for kind, condition in claim_controllers()),
    (DeviceTaintEvictionController, gate("DRADeviceTaints")),
    (PoolStatusController, gate("DRAResourcePoolStatus")),
    (ResourceQuotaController, _ALWAYS),
    (NodeLifecycleController, _ALWAYS),
    (TaintEvictionController, _ALWAYS),
    (NodeTTLController, _ALWAYS),
    (PodGarbageCollector, _ALWAYS),
    (EndpointsController, _ALWAYS),
    (EndpointSliceController, _ALWAYS),
    (EndpointSliceMirroringController, _ALWAYS),
    (RoleAggregationController, _ALWAYS),
    (ApprovingController, _ALWAYS),
    (SigningController, _ALWAYS),
    (CleaningController, _ALWAYS),
    (ServiceCIDRController, since(29) & gate("MultiCIDRServiceAllocator")),
    (StorageVersionMigrationController, gate("StorageVersionMigrator") & gate("InformerResourceVersion")),
)

# Older names that --controllers accepts, from before 1.28 (upstream, cmd/kube-controller-manager/names).
ALIASES = {
    "clusterrole-aggregation": "clusterrole-aggregation-controller",
    "csrapproving": "certificatesigningrequest-approving-controller",
    "csrcleaner": "certificatesigningrequest-cleaner-controller",
    "csrsigning": "certificatesigningrequest-signing-controller",
    "serviceaccount-token": "serviceaccount-token-controller",
    "cronjob": "cronjob-controller",
    "daemonset": "daemonset-controller",
    "deployment": "deployment-controller",
    "disruption": "disruption-controller",
    "endpoint": "endpoints-controller",
    "endpointslice": "endpointslice-controller",
    "endpointslicemirroring": "endpointslice-mirroring-controller",
    "ephemeral-volume": "ephemeral-volume-controller",
    "horizontalpodautoscaling": "horizontal-pod-autoscaler-controller",
    "garbagecollector": "garbage-collector-controller",
    "job": "job-controller",
    "namespace": "namespace-controller",
    "nodelifecycle": "node-lifecycle-controller",
    "podgc": "pod-garbage-collector-controller",
    "persistentvolume-binder": "persistentvolume-binder-controller",
    "pv-protection": "persistentvolume-protection-controller",
    "pvc-protection": "persistentvolumeclaim-protection-controller",
    "replicaset": "replicaset-controller",
    "replicationcontroller": "replicationcontroller-controller",
    "resource-claim-controller": "resourceclaim-controller",
    "resourcequota": "resourcequota-controller",
    "root-ca-cert-publisher": "root-ca-certificate-publisher-controller",
    "serviceaccount": "serviceaccount-controller",
    "statefulset": "statefulset-controller",
    "svm": "storage-version-migrator-controller",
    "ttl": "ttl-controller",
    "ttl-after-finished": "ttl-after-finished-controller",
}


def account_of(controller: str) -> str | None:
    """None for controllers that run as the manager itself."""
    return None if controller in _OWN else _ACCOUNTS.get(controller, controller)


class AccountClients:
    """`root` is the manager's own client, which requests the tokens."""

    def __init__(
        self,
        root: APIClient,
        config: Kubeconfig,
        clock: Clock,
        agent: str,
        wrap: Wrap | None = None,
        *,
        dial: Dial = dial,
        decode: Decode = as_is,
    ) -> None:
        """`wrap` may replace the transport of an account; its second argument is the user name.

        `decode` is that of `APIClient`.
        """
        bare = replace(config, certificate=b"", key=b"", token="")
        self._root = root
        self._clock = clock
        self._agent = agent
        self._wrap = wrap
        self._decode = decode
        self._transport = dial(bare, MAX_REQUESTS)
        self._clients: dict[str, APIClient] = {}

    def of(self, controller: str) -> APIClient:
        account = account_of(controller)
        if account is None:
            return self._root
        client = self._clients.get(account)
        if client is None:
            user = f"system:serviceaccount:{NAMESPACE}:{account}"
            transport: Transport = AccountTransport(self._root, self._transport, self._clock, account)
            if self._wrap is not None:
                transport = self._wrap(transport, user)
            agent = f"{self._agent}/{user}"
            headers = {"User-Agent": agent}
            client = APIClient(transport, clock=self._clock, headers=headers, decode=self._decode)
            self._clients[account] = client
        return client

    async def close(self) -> None:
        await self._transport.close()


class AccountTransport:
    """Sends requests with the token of an account of kube-system, which is created if it does not exist."""

    def __init__(self, root: APIClient, inner: Transport, clock: Clock, account: str) -> None:
        self._root = root
        self._inner = inner
        self._clock = clock
        self._account = account
        self._token = ""
        self._renewal = 0.0
        self._asking = asyncio.Lock()

    async def __call__(self, request: Request) -> Response:
        token = await self._current("")
        response = await self._send(request, token)
        if response.status == _UNAUTHORIZED:  # the account was deleted, or the server has another key
            await response.close()
            response = await self._send(request, await self._current(token))
        return response

    async def close(self) -> None:
        """The transport below is shared and stays open."""

    async def _send(self, request: Request, token: str) -> Response:
        headers = {**request.headers, "Authorization": f"Bearer {token}"}
        return await self._inner(replace(request, headers=headers))

    async def _current(self, refused: str) -> str:
        """Requests a token unless the present one is valid for long enough and is not the `refused` one."""
        async with self._asking:
            if not self._token or self._token == refused or self._clock.monotonic() > self._renewal:
                self._token = await self._ask()
                self._renewal = self._clock.monotonic() + _RENEW_SECONDS
            return self._token

    async def _ask(self) -> str:
        try:
            return await self._request_token()
        except StatusError as error:
            if not is_reason(error, "NotFound"):
                raise
        metadata = {"name": self._account, "namespace": NAMESPACE}
        try:
            await self._root.create(
                SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
            )
        except StatusError as error:
            if not is_reason(error, "AlreadyExists"):
                raise
        return await self._request_token()

    async def _request_token(self) -> str:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _SECONDS},
        }
        made = await self._root.create(
            SERVICE_ACCOUNTS, body, NAMESPACE, name=self._account, subresource="token"
        )
        return str(made["status"]["token"])


@dataclass(frozen=True, slots=True)
class ManagerOptions:
    controllers: Sequence[str] = ("*",)
    workers: Mapping[str, int] = field(default_factory=dict)  # by controller name
    root_ca: str = ""  # PEM
    own_accounts: bool = False  # each controller has its own account; else all use the manager's
    authority: tuple[bytes, bytes] | None = None  # certificate and key, PEM
    account_key: bytes = b""  # PEM


def is_enabled(name: str, wanted: Sequence[str]) -> bool:
    """`wanted` is the value of `--controllers`: names, `-` and a name, or `*`."""
    names = [_full_name(text) for text in wanted]
    if name in names:
        return True
    return f"-{name}" not in names and "*" in names


def unknown_controllers(wanted: Sequence[str]) -> list[str]:
    known = {controller.name for controller, _ in CONTROLLERS} | set(ALIASES.values()) | {"*"}
    return [text for text in wanted if _full_name(text).removeprefix("-") not in known]


def _full_name(text: str) -> str:
    sign, name = ("-", text[1:]) if text.startswith("-") else ("", text)
    return sign + ALIASES.get(name, name)


class Manager:
    def __init__(self, ctx: ComponentContext, options: ManagerOptions) -> None:
        self._ctx = ctx
        self._options = options
        self._running: list[Controller] = []
        self._queues = QueueMetrics(ctx.health.registry, ctx.environment.clock)
        ctx.health.add_check("leading", lambda: bool(self._running) or "not leading")
        ctx.health.add_check("controllers", self._working)

    def _working(self) -> bool | str:
        late = [controller.name for controller in self._running if not controller.ready]
        return f"starting: {', '.join(late)}" if late else True

    async def run(self) -> None:
        """It ends when the component has to stop."""
        if not self._ctx.options.leader_elect:
            await self._lead(self._ctx.stop)
            return
        elector = LeaderElector(
            self._ctx.client,
            self._ctx.environment.clock,
            LEASE_NAME,
            LEASE_NAMESPACE,
            self._ctx.identity,
            component=_COMPONENT,
            periods=self._ctx.environment.periods,
        )
        await elector.run_again(self._ctx.stop, self._lead)

    async def _lead(self, ended: asyncio.Event) -> None:
        environment = self._ctx.environment
        informers = InformerFactory(
            *(self._ctx.client, environment.clock, environment.entropy),
            trimmed=True,
            periods=environment.periods,
        )
        context = ControllerContext(
            environment=environment,
            client=self._ctx.client,
            informers=informers,
            registry=self._ctx.health.registry,
            queues=self._queues,
            root_ca=self._options.root_ca,
            authority=self._options.authority,
            account_key=self._options.account_key,
            workers=dict(self._options.workers),
            panic=self._ctx.panic,
        )
        accounts = self._accounts()
        controllers = [
            controller(
                replace(context, used=[], client=accounts.of(controller.name) if accounts else context.client)
            )
            for controller, condition in CONTROLLERS
            if is_enabled(controller.name, self._options.controllers) and condition.value(environment.gates)
        ]
        informers.start()
        for controller in controllers:
            controller.start()
        self._running = controllers
        log.info("started %d controllers", len(controllers))
        try:
            await ended.wait()
        finally:
            self._running = []
            await asyncio.gather(*(controller.stop() for controller in controllers))
            await informers.stop()
            if accounts is not None:
                await accounts.close()

    def _accounts(self) -> AccountClients | None:
        if not self._options.own_accounts:
            return None
        ctx = self._ctx
        agent = user_agent(f"kube-{ctx.name}", ctx.environment.version)
        config = load_kubeconfig(ctx.options.kubeconfig)
        wrap = ctx.faults.wrap if ctx.faults is not None else None
        return AccountClients(
            ctx.client,
            config,
            ctx.environment.clock,
            agent,
            wrap,
            dial=ctx.options.machine.dial,
            decode=decoder(ctx.environment.version),
        )
