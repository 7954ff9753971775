"""API server: built from its options, for calls in process or over a socket, and stopped in order."""

import asyncio
import logging
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.metrics.process import ProcessMetrics
from kubeskew.apimachinery.metrics.series import QueueMetrics
from kubeskew.apimachinery.process.network_agent import NetworkAgent
from kubeskew.apiserver import bootstrap, health_checks, pipeline
from kubeskew.apiserver.admission.chain import admission_chain
from kubeskew.apiserver.admission.policy.type_checking import TypeChecking
from kubeskew.apiserver.aggregation.availability import Availability
from kubeskew.apiserver.aggregation.local import LocalServices
from kubeskew.apiserver.aggregation.registered import registered
from kubeskew.apiserver.apiextensions.controllers import DefinitionControllers
from kubeskew.apiserver.apiextensions.table import composed
from kubeskew.apiserver.authentication import TokenSource
from kubeskew.apiserver.authentication.accounts import AccountTokens
from kubeskew.apiserver.authentication.authenticator import (
    Authorities,
    CertificateAuthenticator,
    RequestHeaderAuthenticator,
    RequestHeaders,
    TokenFile,
    UnionAuthenticator,
)
from kubeskew.apiserver.authorization.access import Access
from kubeskew.apiserver.background import Wakeups
from kubeskew.apiserver.fairness.metrics import FlowMetrics
from kubeskew.apiserver.faults import ServerFaults
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.filters.fairness import Fairness
from kubeskew.apiserver.handlers.dispatch import Dispatcher, is_served
from kubeskew.apiserver.health_checks import HealthChecks
from kubeskew.apiserver.http.request import Handler, Lifetime, Request, Response
from kubeskew.apiserver.http.self_signed import serving_pair
from kubeskew.apiserver.machine import ServerMachine, SystemServerMachine
from kubeskew.apiserver.metrics import RequestMetrics, TokenMetrics
from kubeskew.apiserver.nodes.connections import NodeConnections
from kubeskew.apiserver.options import ServerOptions
from kubeskew.apiserver.registry.codec import Codec
from kubeskew.apiserver.routes.paths import Paths
from kubeskew.apiserver.serviceaccount.tokens import AccountKeys
from kubeskew.apiserver.services import Services
from kubeskew.apiserver.state_metrics import StateMetrics
from kubeskew.apiserver.storage.etcd.keys import OPAQUE, refusal
from kubeskew.apiserver.storage.forwarding.forwarding_log import ForwardingLog
from kubeskew.apiserver.storage.interfaces import Log, StorageError, Store
from kubeskew.apiserver.storage.records import ComponentEvent
from kubeskew.apiserver.webhooks.client import WebhookClient
from kubeskew.apiserver.webhooks.endpoints import ServiceResolver

log = logging.getLogger(__name__)


class APIServer:
    """`handle` is the whole pipeline; `services` are the parts that it uses."""

    def __init__(
        self,
        options: ServerOptions,
        environment: Environment,
        store: Store,
        event_log: Log,
        machine: ServerMachine | None = None,
    ) -> None:
        machine = machine if machine is not None else SystemServerMachine()
        builtin = catalogue_for(environment.version, environment.gates, options.runtime_config)
        table = composed(builtin, store, environment.gates)
        network = NetworkAgent(options.network_agent) if options.network_agent else None
        resolver = ServiceResolver(store, options.webhook_services, network)
        webhooks = WebhookClient(resolver, environment.clock)
        keys = _account_keys(options)
        self.options = options
        self.faults: ServerFaults | None = None
        if options.faults_dir and options.worker.first:
            directory = Path(options.faults_dir)
            self.faults = ServerFaults(directory, options.name, environment, event_log, machine.kill)
        features = Features.of(environment.gates)
        metrics = RequestMetrics(
            partial(is_served, table),
            connect_verb=features.requests.connect_verb,
            constrained_impersonation=features.requests.constrained_impersonation,
            version=environment.version,
        )
        self.services = Services(
            name=options.name,
            environment=environment,
            features=features,
            table=table,
            store=store,
            log=event_log,
            codec=Codec(table, environment, webhooks, store.shared_revisions),
            authenticator=_authenticator(options, keys, store, environment, metrics.tokens),
            account_keys=keys,
            authorizer=Access(store, environment),
            metrics=metrics,
            lifetime=Lifetime(),
            health=HealthChecks(),
            service_ip_range=options.service_cluster_ip_range,
            serves_logs=options.enable_logs_handler,
            definitions=builtin.definitions(),
            service_resolver=resolver,
            webhooks=webhooks,
            registered=registered(store),
            front_proxy_client=_front_proxy_client(options),
        )
        self.services.admission = admission_chain(
            self.services,
            options.enable_admission_plugins,
            options.disable_admission_plugins,
            self.services.metrics.admission,
        )
        self.services.nodes = NodeConnections(options, network)
        self._count_state()
        self._dispatcher = Dispatcher(self.services, Paths(self.services))
        self._add_duties()
        self.handle: Handler = self._pipeline()
        self._bootstrapped = False
        self.listener = machine.listener(self.handle, environment.clock)
        self.port = options.secure_port
        self._add_checks()

    def _add_duties(self) -> None:
        services = self.services
        queues = QueueMetrics(services.metrics.registry, services.environment.clock)
        if not self.options.worker.first:  # it needs to know what remote servers serve
            services.background.add(
                "availability of APIServices", Availability(services, self.dispatch, queues).run
            )
            return
        definitions = DefinitionControllers(services, self.dispatch)
        services.background.add("definitions", definitions.run)
        local = LocalServices(services, self.dispatch, queues)
        services.background.add("local APIServices", local.run)
        availability = Availability(services, self.dispatch, queues)
        services.background.add("availability of APIServices", availability.run)
        type_checking = TypeChecking(services, self.dispatch)
        services.background.add("type checking of policies", type_checking.run)

    def _pipeline(self) -> Handler:
        options, services = self.options, self.services
        return pipeline.build(
            self._dispatcher.dispatch,
            authenticator=services.authenticator,
            authorizer=services.authorizer,
            metrics=services.metrics,
            clock=services.environment.clock,
            entropy=services.environment.entropy,
            max_reads=options.max_requests_inflight,
            max_writes=options.max_mutating_requests_inflight,
            constrained_impersonation=services.features.requests.constrained_impersonation,
            missing_user_is_400=services.features.requests.missing_user_is_400,
            old_lengths=services.features.requests.old_lengths,
            fairness=self._fairness(),
            faults=self.faults.filter if self.faults is not None else None,
        )

    def _count_state(self) -> None:
        services = self.services
        ProcessMetrics(services.metrics.registry, services.environment)
        state = StateMetrics(
            services.metrics.families, services.metrics.reads, services, self.options.storage_url
        )
        services.metrics.looks.append(state.look)

    def _fairness(self) -> Fairness | None:
        """None where the limits or the gate of priority and fairness are off; then only the limits count."""
        options, services = self.options, self.services
        total = options.max_requests_inflight + options.max_mutating_requests_inflight
        if not total or not services.features.requests.fairness:
            return None
        clock = services.environment.clock
        metrics = FlowMetrics(services.metrics.families, clock.monotonic())
        services.metrics.seat_waits = metrics.waits
        fairness = Fairness(services.store, metrics, total, services.codec.current, clock)
        services.metrics.looks.append(fairness.look)
        return fairness

    def _add_checks(self) -> None:
        health, lifetime, event_log = self.services.health, self.services.lifetime, self.services.log
        health.add("ping", lambda: True)  # True if the server answers at all, as upstream
        health.add("log", lambda: True)  # of messages: they go to standard error and are not buffered
        if self.services.features.hooks.loopback_check:  # the certificate never expires here
            health.add("loopback-serving-certificate", lambda: True, ("healthz", "livez"))
        health.add("etcd", lambda: event_log.healthy)
        health.add("etcd-readiness", lambda: event_log.healthy, ("readyz",))
        health.add("informer-sync", lambda: self._bootstrapped, ("readyz",))
        for name in health_checks.check_names(self.services.features.hooks):
            health.add(name, lambda: self._bootstrapped)
        health.add("shutdown", lambda: not lifetime.stopping.is_set(), ("readyz",))

    async def dispatch(self, request: Request) -> Response:
        """Serves a request of the server's own, without filters: its user must be set."""
        self.services.metrics.self_requested(request.info)
        return await self._dispatcher.dispatch(request)

    async def start(self) -> None:
        """Listens, and creates the objects of a fresh cluster; ready when this returns."""
        options, environment = self.options, self.services.environment
        await self._listen()
        await self.bootstrap()
        if options.shared_port:  # as behind a load balancer, which asks for readiness
            await self.listener.share(options)
        if self.faults is not None:
            self.faults.begin(self.listener.refuse_during)
        if not options.worker.again:
            await self._record("started")
        log.info("%s %s serving on %s:%d", options.name, environment.version, options.bind_address, self.port)

    async def bootstrap(self) -> None:
        """Creates the objects that every cluster has (namespaces, roles, flow schemas), and keeps them there.

        A server that is only called in process needs no more than this to start.
        """
        if self.options.worker.first:
            await self._make_and_keep()
        self.services.background.start()
        self._bootstrapped = True

    async def _make_and_keep(self) -> None:
        if not await self._make_what_is_missing():
            self.services.background.add("bootstrap", self._go_on_making)
        self.services.background.add("what has to be there", self._keep)

    async def _make_what_is_missing(self) -> bool:
        return await bootstrap.run(self.services, self.dispatch, self.options, self.port)

    async def _keep(self) -> None:
        await bootstrap.keep(self.services, self.dispatch, self.options, self.port)

    async def _go_on_making(self) -> None:
        """Tries until nothing is refused any more: no other component creates these objects."""
        wakeups, done = Wakeups(), False
        while not done:
            wakeups.begin()
            wakeups.fail()
            await wakeups.wait()
            done = await self._make_what_is_missing()

    async def _listen(self) -> None:
        options = self.options
        self.port = await self.listener.listen(options)
        self.services.address = f"{options.advertise_address}:{self.port}"

    async def stop(self) -> None:
        """Stops accepting, ends watches, lets requests under way finish; the store stays open.

        Connections are finished first, else clients whose watch ends begin another one on the same
        connection.


        """
        self.listener.finish()
        await self.end()
        self.services.lifetime.stop()  # watches that have begun since, of earlier requests
        await self.listener.close(self.options.shutdown_grace_seconds)
        await self._record("stopped")

    async def end(self) -> None:
        """Ends watches and duties. A server that is only called in process needs no more to stop."""
        self.services.lifetime.stop()
        if self.faults is not None:
            await self.faults.stop()
        await self.services.background.stop()
        await self.services.webhooks.close()

    async def _record(self, what: str) -> None:
        if not self.options.worker.first:  # the server is one
            return
        environment = self.services.environment
        event = ComponentEvent(
            0,
            self.options.name,
            what,
            str(environment.version),
            environment.gates.flag(),
            environment.clock.now(),
        )
        await self.services.log.record(event)


def _account_keys(options: ServerOptions) -> AccountKeys:
    return AccountKeys(
        options.service_account_issuer,
        options.service_account_signing_key_file,
        options.service_account_key_files,
        options.api_audiences,
        options.service_account_jwks_uri,
    )


def _authenticator(
    options: ServerOptions, keys: AccountKeys, store: Store, environment: Environment, metrics: TokenMetrics
) -> UnionAuthenticator:
    lines = Path(options.token_auth_file).read_text().splitlines() if options.token_auth_file else []
    features = Features.of(environment.gates)
    accounts = AccountTokens(keys, store, environment.clock, features.accounts, metrics)
    tokens: list[TokenSource] = [TokenFile(lines, keys.audiences), accounts]
    authorities = Authorities(
        _content(options.client_ca_file), _content(options.requestheader_client_ca_file)
    )
    headers = None
    if options.requestheader_client_ca_file:
        headers = RequestHeaderAuthenticator(_request_headers(options), authorities, environment.clock)
    return UnionAuthenticator(
        CertificateAuthenticator(
            environment.clock, authorities, adds_credential_id=features.accounts.certificate_ids
        ),
        tokens,
        keys.audiences,
        anonymous=options.anonymous_auth,
        request_headers=headers,
    )


def _front_proxy_client(options: ServerOptions) -> tuple[str, str] | None:
    if not options.proxy_client_cert_file:
        return None
    return options.proxy_client_cert_file, options.proxy_client_key_file


def _content(path: str) -> bytes:
    return Path(path).read_bytes() if path else b""


def _request_headers(options: ServerOptions) -> RequestHeaders:
    return RequestHeaders(
        options.requestheader_username_headers,
        options.requestheader_uid_headers,
        options.requestheader_group_headers,
        options.requestheader_extra_headers_prefix,
        options.requestheader_allowed_names,
    )


async def _starts(server: APIServer, stop: asyncio.Event) -> bool:
    """False if the server is to stop before it has started."""
    starting, stopping = asyncio.ensure_future(server.start()), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        return starting.done()
    finally:
        for task in (starting, stopping):
            task.cancel()
        await asyncio.gather(starting, stopping, return_exceptions=True)


async def serve(
    options: ServerOptions,
    environment: Environment,
    stop: asyncio.Event,
    machine: ServerMachine,
    opened: Callable[[], None] = lambda: None,
) -> None:
    """Opens the storage, calls `opened`, serves until `stop` is set, and shuts down in order."""
    from kubeskew.apiserver.storage.store import CachedStore

    event_log = await machine.storage.log(options.storage_url, environment.clock)
    async with await CachedStore.open(event_log, environment.clock) as store:
        if (line := refusal(store.list(OPAQUE).entries)) is not None:
            raise StorageError(line)
        opened()
        with serving_pair(options, environment.clock.now()) as options:
            server = APIServer(options, environment, store, event_log, machine)
            if isinstance(event_log, ForwardingLog):
                event_log.answer(lambda _: server.services.metrics.collect())
                server.services.others = event_log
            if server.faults is not None:
                store.commit = server.faults.commit
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.faults.reload)
            started = await _starts(server, stop)
        if started:
            machine.settle()
            await stop.wait()
        server.services.lifetime.stopping.set()  # not ready from here on
        await environment.clock.sleep(options.shutdown_delay_seconds)
        await server.stop()
