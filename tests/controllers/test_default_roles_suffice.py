"""The default roles let the components do what they do, at every release and with every gate."""

import asyncio
from dataclasses import replace

import pytest
from in_process_transport import Answer
from prometheus_client import CollectorRegistry
from until import until

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import DEPLOYMENTS, JOBS, PODS, Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.gates import FeatureGates, GateError
from kubeskew.apimachinery.versions import SUPPORTED, Version
from kubeskew.apiserver.authorization.default_roles import DefaultRoles
from kubeskew.apiserver.authorization.rbac import Rule
from kubeskew.apiserver.http.request import Peer, Request
from kubeskew.apiserver.options import ServerOptions
from kubeskew.apiserver.server import APIServer
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.store import CachedStore
from kubeskew.controllers.framework.base import ControllerContext
from kubeskew.controllers.manager import CONTROLLERS, account_of
from kubeskew.kubelet.agent import NodeAgent
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.node.config import NodeConfig
from kubeskew.kubelet.node.status import StartLimiter
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.scheduler import SchedulerService

SCHEDULER = Peer("system:kube-scheduler", ())
SECONDS = 30
MANAGER = Peer("system:kube-controller-manager", ())


def free_gates(version: Version) -> list[str]:
    """The gates that can be set at this release."""
    gates = FeatureGates(version)
    specs = ((name, gates.spec(name)) for name in gates.known())
    return [name for name, spec in specs if spec is not None and not spec.locked]


def settings(version: Version):
    """The gates as they are by default, all of them on, all off, and each on and off by itself."""
    names = free_gates(version)
    yield {}
    for value in (True, False):
        yield dict.fromkeys(names, value)
        yield from ({name: value} for name in names)


def environment_of(version: Version, gates: dict[str, bool]) -> Environment:
    return Environment(version, FeatureGates(version, gates), SystemClock(), SeededEntropy(1))


def startable(gates: FeatureGates) -> bool:
    """Returns whether a component starts with these gates: some need others."""
    try:
        gates.validate()
    except GateError:
        return False
    return True


async def unreachable(_request):
    raise ConnectionError


def followed(environment: Environment) -> set[Ref]:
    """Returns the resources that a scheduler follows."""
    service = SchedulerService(environment, APIClient(unreachable), CollectorRegistry())
    return {key[0] for key in service._informers._informers}


@pytest.mark.parametrize("version", SUPPORTED, ids=str)
async def test_the_scheduler_may_follow_what_it_follows(version):
    """With any gates on, the role of the scheduler lets it list and watch what its informers are for."""
    seen, missing = set(), []
    follows: dict[SchedulerFeatures, set[Ref]] = {}  # nothing else in the scheduler asks for a gate
    for gates in settings(version):
        environment = environment_of(version, gates)
        if not startable(environment.gates):
            continue
        rules = [Rule.of(rule) for rule in DefaultRoles(environment.gates).rules_of("system:kube-scheduler")]
        rules += [
            Rule.of(rule) for rule in DefaultRoles(environment.gates).rules_of("system:volume-scheduler")
        ]
        key = SchedulerFeatures.of(environment.gates)
        if key not in follows:
            follows[key] = followed(environment)
        for ref in follows[key]:
            seen.add(ref.plural)
            missing += [
                (verb, str(ref), gates if len(gates) < 2 else len(gates))
                for verb in ("list", "watch")
                if not any(rule.allows_kind(verb, ref.group, ref.plural, "") for rule in rules)
            ]
    assert missing == []
    assert ("podgroups" in seen) == (version.minor >= 36)


class As:
    """Calls a server of this process as one user; what is forbidden is put on a list."""

    def __init__(self, server: APIServer, peer: Peer, refused: list[str]) -> None:
        self._server, self._peer, self._refused = server, peer, refused

    async def __call__(self, request):
        headers = {name.lower(): value for name, value in request.headers.items()}
        made = Request.of(request.method, request.target, headers, request.body or b"", self._peer)
        response = await self._server.handle(made)
        if response.status == 403:
            self._refused.append(
                f"{self._peer.common_name}: {request.method} {request.target}: {response.body}"
            )
        return Answer(response)

    async def close(self):
        pass


class Components:
    """A scheduler, all controllers and a kubelet on a server in this process, each with its own rights."""

    def __init__(self, server: APIServer, environment: Environment, root) -> None:
        self.server, self.environment, self.refused = server, environment, []
        self.admin = self._client(Peer("admin", ("system:masters",)))
        informers = InformerFactory(self._client(MANAGER), environment.clock, environment.entropy)
        context = ControllerContext(environment, self._client(MANAGER), informers, root_ca="CA")
        self.controllers = [
            kind(replace(context, used=[], client=self._client(self._account(kind.name))))
            for kind, condition in CONTROLLERS
            if condition.value(environment.gates)
        ]
        self.informers = informers
        self.scheduler = SchedulerService(environment, self._client(SCHEDULER), CollectorRegistry())
        node = Peer("system:node:n", ("system:nodes",))
        metrics = KubeletMetrics(CollectorRegistry())
        self.kubelet = NodeAgent(
            NodeConfig("n", capacity={"cpu": "8", "memory": "8Gi", "pods": "9"}),
            root,
            environment,
            self._client(node),
            metrics,
        )
        self._ended = asyncio.Event()

    def _client(self, peer: Peer) -> APIClient:
        return APIClient(
            As(self.server, peer, self.refused),
            clock=self.environment.clock,
            headers={"User-Agent": "test/v1"},
        )

    @staticmethod
    def _account(controller: str) -> Peer:
        account = account_of(controller)
        if account is None:
            return MANAGER
        groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system")
        return Peer(f"system:serviceaccount:kube-system:{account}", groups)

    async def start(self) -> None:
        self.informers.start()
        self.scheduler.start()
        self._leading = asyncio.create_task(self.scheduler.lead(self._ended))
        for controller in self.controllers:
            controller.start()
        self.kubelet.start(StartLimiter(1, 1.0))
        await until(lambda: self.refused or self.scheduler.leading, SECONDS, every=0.02)
        await until(
            lambda: self.refused or all(controller.ready for controller in self.controllers),
            SECONDS,
            every=0.02,
        )
        await until(lambda: self.refused or self.kubelet.ready, SECONDS, every=0.02)

    async def stop(self) -> None:
        self._ended.set()
        await self._leading
        await self.scheduler.stop()
        for controller in self.controllers:
            await controller.stop()
        await self.informers.stop()
        await self.kubelet.stop()
        await self.server.end()
        await self.server.services.store.close()

    async def until(self, condition) -> None:
        """Return once the condition holds, or something was refused."""

        async def holds():
            return bool(self.refused) or await condition()

        await until(holds, SECONDS, every=0.05)


async def components(version: Version, gates: dict[str, bool], root) -> Components:
    environment = environment_of(version, gates)
    url = "sqlite+aiosqlite://"
    event_log = await SQLLog.open(url, environment.clock)
    store = await CachedStore.open(event_log, environment.clock)
    everything = {"api/all": True}
    server = APIServer(
        ServerOptions(storage_url=url, runtime_config=everything), environment, store, event_log
    )
    await server.bootstrap()
    return Components(server, environment, root)


POD = {"containers": [{"name": "c", "image": "i"}]}
ONCE = {"containers": [{"name": "c", "image": "i", "command": ["true"]}], "restartPolicy": "Never"}


@pytest.mark.parametrize("all_on", [False, True], ids=["defaults", "all gates"])
@pytest.mark.parametrize("version", SUPPORTED, ids=str)
async def test_nothing_that_components_do_is_forbidden(version, all_on, tmp_path):
    """Scheduler, controllers and kubelet run a deployment and a job, and clean up, with their roles alone."""
    gates = dict.fromkeys(free_gates(version), True) if all_on else {}
    cluster = await components(version, gates, tmp_path)
    admin = cluster.admin
    try:
        await cluster.start()
        labels = {"matchLabels": {"a": "b"}}
        template = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
        await until(lambda: has(admin, "serviceaccounts", "default"), SECONDS, every=0.05)
        await admin.create(
            DEPLOYMENTS,
            {
                "metadata": {"name": "d", "namespace": "default"},
                "spec": {"selector": labels, "template": template},
            },
        )
        job = {"template": {"spec": ONCE}, "ttlSecondsAfterFinished": 0}
        await admin.create(JOBS, {"metadata": {"name": "j", "namespace": "default"}, "spec": job})

        async def deployed():
            status = (await admin.get(DEPLOYMENTS, "d", "default")).get("status") or {}
            return status.get("availableReplicas") == 1

        await cluster.until(deployed)

        async def job_gone():
            return not (await admin.list(JOBS, "default"))["items"]

        await cluster.until(job_gone)
        await admin.delete(DEPLOYMENTS, "d", "default")

        async def pods_gone():
            return not (await admin.list(PODS, "default"))["items"]

        await cluster.until(pods_gone)
    finally:
        await cluster.stop()
    assert cluster.refused == []


async def has(client: APIClient, plural: str, name: str) -> bool:
    found = await client.list(Ref("", "v1", plural, True, ""), "default")
    return name in [item["metadata"]["name"] for item in found["items"]]
