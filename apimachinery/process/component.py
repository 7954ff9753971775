"""A component as a process: its flags, its health and metrics, its start and its end.

Controller manager, scheduler and kubelet are each an `async main(ctx)`; this module has the code around them
that they share. The API server shares the types of flags, but not `run_component`.
"""

import asyncio
import functools
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click
from click.shell_completion import CompletionItem

from kubeskew.apimachinery.environment import RETRY_SECONDS, Environment, announcement
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates, parse_overrides
from kubeskew.apimachinery.known_bugs import check_bugs, parse_bugs
from kubeskew.apimachinery.periods import QUICK, TIMES
from kubeskew.apimachinery.process.health_checks import Health
from kubeskew.apimachinery.process.machine import Machine, SystemMachine, machine_given
from kubeskew.apimachinery.process.runtime import Panic, call_all, end_by, stop_on_signals, until_stopped
from kubeskew.apimachinery.versions import DEFAULT_VERSION, Version, supported

if TYPE_CHECKING:
    from kubeskew.apimachinery.client.faults import ComponentFaults
    from kubeskew.apimachinery.client.rest import APIClient
    from kubeskew.apimachinery.faults.injector import ProcessFaults

P = ParamSpec("P")
R = TypeVar("R")

_ANNOUNCE_SECONDS = 2.0  # how long an announcement waits for the server

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ComponentOptions:
    """The flags that every component has, with upstream's names."""

    kubeconfig: Path
    emulated_version: Version
    feature_gates: FeatureGates
    bind_address: str
    secure_port: int
    leader_elect: bool
    verbosity: int
    faults_dir: Path | None = None
    timeline_dir: Path | None = None
    machine: Machine = field(default_factory=SystemMachine)
    time: str = QUICK


@dataclass(frozen=True, slots=True)
class ComponentContext:
    """The arguments of a component's `main`. `main` returns once `stop` is set and all that it began has
    ended."""

    name: str
    environment: Environment
    client: "APIClient"
    health: Health
    stop: asyncio.Event
    options: ComponentOptions
    identity: str  # of the leader election: unique per process
    reloads: list[Callable[[], None]] = field(default_factory=list)  # called on SIGHUP
    process_faults: "ProcessFaults | None" = None
    faults: "ComponentFaults | None" = None  # of the component that the process is

    def panic(self, panic: Panic) -> None:
        """Ends the process, as a Go panic in any goroutine does."""
        end_by(panic, self.options.machine.exit)

    async def announce(
        self, component: str, what: str, client: "APIClient | None" = None, detail: str = ""
    ) -> None:
        """Writes a component's start, stop or failure to the server's log; a server that does not answer
        misses it.

        `client` is the component's own in a process of several: each may announce only itself.
        """
        from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS

        try:
            async with asyncio.timeout(_ANNOUNCE_SECONDS):
                await self._post(component, what, client or self.client, detail)
        except (StatusError, TimeoutError, *CONNECTION_ERRORS) as error:
            log.warning("cannot announce %s of %s: %s", what, component, error)

    async def announce_start(self, detail: str = "") -> None:
        """Announces this process as soon as a server answers; if it refuses, there is no second attempt."""
        from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS

        while True:
            try:
                return await self._post(self.name, "started", self.client, detail)
            except StatusError as error:
                log.warning("cannot announce the start of %s: %s", self.name, error)
                return None
            except CONNECTION_ERRORS:
                await self.environment.clock.sleep(RETRY_SECONDS)

    async def _post(self, component: str, what: str, client: "APIClient", detail: str = "") -> None:
        from kubeskew.apimachinery.client.announcements import post

        body = announcement(self.environment, component, what, detail)
        await post(client, self.environment.timeline_dir, body)


class VersionParam(click.ParamType[Version]):
    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Version:
        if isinstance(value, Version):
            return value
        try:
            return Version.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(text) for text in map(str, supported()) if text.startswith(incomplete)]


version_option = click.option(
    "--emulated-version",
    type=VersionParam(),
    default=str(DEFAULT_VERSION),
    show_default=True,
    help="The Kubernetes release whose behaviour it has: 1.36, or a patch such as 1.35.2.",
)
gates_option = click.option(
    "--feature-gates",
    "gates",
    default="",
    metavar="A=true,B=false",
    help="Feature gates to turn on or off, unlike the release's defaults.",
)


class BugsParam(click.ParamType[dict[str, bool]]):
    name = "bugs"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, bool]:
        if isinstance(value, dict):
            return value
        try:
            return parse_bugs(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


bugs_option = click.option(
    "--bugs",
    type=BugsParam(),
    default="",
    metavar="ID=off,ID=on",
    help="Known bugs of Kubernetes: ID=off runs without one that the version has, ID=on with one that it "
    "does "
    "not have. `kubeskew bugs` lists them.",
)
faults_option = click.option(
    "--faults-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Directory of the faults to inject (see `kubeskew fault --help`); read again on SIGHUP.",
)
verbosity_option = click.option(
    "-v", "--v", "verbosity", type=int, default=0, help="Verbosity of the component's own log."
)
time_option = click.option(
    "--time",
    type=click.Choice(TIMES),
    default=QUICK,
    show_default=True,
    help="How long it waits where nothing happens: quick is shorter than Kubernetes in some places, real is "
    "not (docs/time.md).",
)
leader_election_option = click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Work only while holding the lease, so that one of several replicas works at a time.",
)


def common_options(command: Callable[..., R], *, any_gates: bool = False) -> Callable[..., R]:
    """Adds the common flags to a click command, which then gets one `options: ComponentOptions`. With
    `any_gates`, gates are not checked, because the component may have others than its release.

    `leader_election_option` goes below it, at the components that have replicas.
    """

    @click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        required=True,
        help="The API server to use, with the credentials.",
    )
    @version_option
    @gates_option
    @bugs_option
    @click.option(
        "--bind-address",
        default="127.0.0.1",
        show_default=True,
        help="The address for /healthz and /metrics.",
    )
    @click.option(
        "--secure-port",
        type=click.IntRange(0, 65535),
        default=0,
        show_default=True,
        help="The port for /healthz and /metrics; 0 takes any free one.",
    )
    @faults_option
    @click.option(
        "--timeline-dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=None,
        help="Directory of the sockets at which announcements are taken where the API server is a real "
        "program.",
    )
    @time_option
    @verbosity_option
    @functools.wraps(command)
    def wrapped(
        kubeconfig: Path,
        emulated_version: Version,
        gates: str,
        bugs: dict[str, bool],
        bind_address: str,
        secure_port: int,
        faults_dir: Path | None,
        timeline_dir: Path | None,
        time: str,
        verbosity: int,
        leader_elect: bool = False,
        **rest: Any,
    ) -> R:
        options = ComponentOptions(
            kubeconfig=kubeconfig,
            emulated_version=emulated_version,
            feature_gates=parse_gates(emulated_version, gates, bugs, known=not any_gates),
            bind_address=bind_address,
            secure_port=secure_port,
            leader_elect=leader_elect,
            time=time,
            verbosity=verbosity,
            faults_dir=faults_dir,
            timeline_dir=timeline_dir,
            machine=machine_given(SystemMachine),
        )
        return command(options=options, **rest)

    return wrapped


def parse_gates(version: Version, text: str, bugs: Mapping[str, bool], *, known: bool = True) -> FeatureGates:
    """Raises a usage error (exit 2) where upstream refuses the flag; unless gates have to be `known`, only
    where it cannot be read.
    """
    try:
        if not known:
            return FeatureGates(version, parse_overrides(text), bugs)
        return FeatureGates.parse(version, text, bugs)
    except ValueError as error:
        raise click.UsageError(f"--feature-gates: {error}") from error


def check_own_bugs(gates: FeatureGates, component: str) -> None:
    """Raises a usage error (exit 2) if `--bugs` names one of another component."""
    try:
        check_bugs(gates.bugs.settings, component)
    except ValueError as error:
        raise click.UsageError(f"--bugs: {error}") from error


def run_component(
    name: str,
    options: ComponentOptions,
    main: Callable[[ComponentContext], Awaitable[None]],
    *,
    announce: bool = True,
    agent: str = "",
    detail: str = "",
) -> None:
    """Runs `main` until SIGTERM or SIGINT, with client, health and metrics around it.

    `announce` writes the start and the graceful stop to the server's log under `name`; a process that is
    several components announces each of them itself. `agent` is the name in its user agent, by default
    `kube-NAME`; `detail` is announced with the start.
    """
    options.machine.log(options.verbosity)
    check_own_bugs(options.feature_gates, name.partition("/")[0])
    options.machine.run(_run(name, options, main, announce, agent or _agent(name), detail))


def _agent(name: str) -> str:
    return name if name == "kubelet" else f"kube-{name}"


async def _run(
    name: str,
    options: ComponentOptions,
    main: Callable[[ComponentContext], Awaitable[None]],
    announce: bool,
    agent_name: str,
    detail: str,
) -> None:
    from prometheus_client import CollectorRegistry

    from kubeskew.apimachinery.client.kubeconfig import KubeconfigError
    from kubeskew.apimachinery.client.rest import APIClient, user_agent
    from kubeskew.apimachinery.golang.known_fields import decoder
    from kubeskew.apimachinery.metrics.process import ProcessMetrics

    stop = asyncio.Event()
    stop_on_signals(stop, options.machine.exit)
    reloads: list[Callable[[], None]] = []
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, call_all, reloads)
    machine = options.machine
    environment = Environment(
        options.emulated_version,
        options.feature_gates,
        machine.clock,
        machine.entropy(),
        options.timeline_dir,
        options.time,
    )
    agent = user_agent(agent_name, options.emulated_version)
    process_faults = faults = None
    try:
        if options.faults_dir is not None:
            from kubeskew.apimachinery.client.faults import ComponentFaults
            from kubeskew.apimachinery.faults.injector import ProcessFaults

            process_faults = ProcessFaults(options.faults_dir, environment.clock)
            reloads.append(process_faults.reload)
            if announce:
                last_words = machine.last_words(options.kubeconfig, agent, options.timeline_dir)
                faults = ComponentFaults(process_faults, name, environment, last_words, machine.kill)
        client = APIClient.from_kubeconfig(
            options.kubeconfig,
            agent,
            clock=machine.clock,
            dial=machine.dial,
            wrap=faults.wrap if faults else None,
            decode=decoder(options.emulated_version),
        )
    except KubeconfigError as error:
        raise click.UsageError(f"--kubeconfig: {error}") from error
    if faults is not None:
        faults.attach(client)
    health = Health(CollectorRegistry(), environment.version)
    ProcessMetrics(health.registry, environment)
    ctx = ComponentContext(
        name=name,
        environment=environment,
        client=client,
        health=health,
        stop=stop,
        options=options,
        identity=f"{machine.name}_{environment.entropy.uid()}",
        reloads=reloads,
        process_faults=process_faults,
        faults=faults,
    )
    async with machine.serve_health(health, options.bind_address, options.secure_port):
        try:
            machine.settle()
            announcing = asyncio.create_task(ctx.announce_start(detail)) if announce else None
            await until_stopped(main(ctx), stop)
            if announcing is not None:
                announcing.cancel()
                await ctx.announce(name, "stopped")
        finally:
            await client.close()
