"""A component as a process: its flags, its health and metrics, its start and its end.

Controller manager, scheduler and kubelet are each an `async main(ctx)`; this module holds what is the same
around them. The API server shares `World` and the types of flags, but not `run_component`.
"""

import asyncio
import contextlib
import functools
import gc
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

import click

from kubeskew.apimachinery.clock import Clock, Entropy, SeededEntropy, SystemClock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import DEFAULT_VERSION, Version

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from kubeskew.apimachinery.client.rest import APIClient

P = ParamSpec("P")
R = TypeVar("R")

COMPONENTS_PATH = "/kubeskew/v1/components"
ANNOUNCE_RETRY_SECONDS = 0.2
STOP_SECONDS = 8.0  # how long a component may take to stop; the sender of the signal waits a little longer
_ANNOUNCE_SECONDS = 2.0  # how long an announcement waits for the server

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class World:
    """The surroundings of a component: its version, its gates, its clock and its randomness."""

    version: Version
    gates: FeatureGates
    clock: Clock
    entropy: Entropy


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


class Check(NamedTuple):
    """A named readiness check; it returns True, or a text that says what is missing."""

    name: str
    run: Callable[[], bool | str]


@dataclass(slots=True)
class Health:
    """Serves a component's readiness checks, JSON pages and metrics over HTTP."""

    registry: "CollectorRegistry"
    checks: list[Check] = field(default_factory=list)
    pages: dict[str, Callable[[], Any]] = field(default_factory=dict)
    more_metrics: dict[str, "CollectorRegistry"] = field(default_factory=dict)  # by path, beside /metrics

    def add_check(self, name: str, run: Callable[[], bool | str]) -> None:
        """Adds a check; the component is ready only while `run` returns True."""
        self.checks.append(Check(name, run))

    def add_page(self, path: str, run: Callable[[], Any]) -> None:
        """Serves what `run` returns, as JSON, at `path`."""
        self.pages[path] = run

    def failing(self) -> list[str]:
        """Returns `name: what is missing` of every check that fails; without any check, the component has
        not started yet."""
        if not self.checks:
            return ["starting: no checks yet"]
        results = ((check.name, check.run()) for check in self.checks)
        return [
            f"{name}: {result}" if result else f"{name}: not ready"
            for name, result in results
            if result is not True
        ]


@dataclass(frozen=True, slots=True)
class ComponentContext:
    """The arguments of a component's `main`. It returns once `stop` is set and all it began has ended."""

    name: str
    world: World
    client: "APIClient"
    health: Health
    stop: asyncio.Event
    options: ComponentOptions
    identity: str  # of the leader election: unique per process

    async def announce(self, component: str, what: str, client: "APIClient | None" = None) -> None:
        """Writes a component's start or stop to the server's log; a server that does not answer misses it.

        `client` is the component's own, where a process is several: each may speak of itself alone.
        """
        from kubeskew.apimachinery.client.rest import (
            CONNECTION_ERRORS,  # an import that the API server does without
        )

        try:
            async with asyncio.timeout(_ANNOUNCE_SECONDS):
                await self._post(component, what, client or self.client)
        except (StatusError, TimeoutError, *CONNECTION_ERRORS) as error:
            log.warning("cannot announce %s of %s: %s", what, component, error)

    async def announce_start(self) -> None:
        """Announces this process as soon as a server answers; if it refuses, there is no second attempt."""
        from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS

        while True:
            try:
                return await self._post(self.name, "started", self.client)
            except StatusError as error:
                log.warning("cannot announce the start of %s: %s", self.name, error)
                return None
            except CONNECTION_ERRORS:
                await self.world.clock.sleep(ANNOUNCE_RETRY_SECONDS)

    async def _post(self, component: str, what: str, client: "APIClient") -> None:
        body = {
            "component": component,
            "what": what,
            "version": str(self.world.version),
            "gates": self.world.gates.flag(),
        }
        await client.request("POST", COMPONENTS_PATH, body=body)


class VersionParam(click.ParamType[Version]):
    """A Kubernetes version on the command line."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Version:
        if isinstance(value, Version):
            return value
        try:
            return Version.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


version_option = click.option(
    "--emulated-version",
    type=VersionParam(),
    default=str(DEFAULT_VERSION),
    show_default=True,
    help="The Kubernetes minor to behave as.",
)
gates_option = click.option(
    "--feature-gates", "gates", default="", metavar="A=true,B=false", help="Feature gates to set by hand."
)
verbosity_option = click.option("-v", "--v", "verbosity", type=int, default=0, help="Log verbosity.")


def common_options(command: Callable[..., R]) -> Callable[..., R]:
    """Adds the common flags to a click command, which then gets one `options: ComponentOptions`."""

    @click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        required=True,
        help="How to reach the API server, and as whom.",
    )
    @version_option
    @gates_option
    @click.option(
        "--bind-address", default="127.0.0.1", show_default=True, help="Where to serve health and metrics."
    )
    @click.option(
        "--secure-port",
        type=click.IntRange(0, 65535),
        default=0,
        show_default=True,
        help="Port for health and metrics; 0 is any.",
    )
    @click.option(
        "--leader-elect/--no-leader-elect",
        default=True,
        show_default=True,
        help="Act only while holding the lease.",
    )
    @verbosity_option
    @functools.wraps(command)
    def wrapped(
        kubeconfig: Path,
        emulated_version: Version,
        gates: str,
        bind_address: str,
        secure_port: int,
        leader_elect: bool,
        verbosity: int,
        **rest: Any,
    ) -> R:
        options = ComponentOptions(
            kubeconfig=kubeconfig,
            emulated_version=emulated_version,
            feature_gates=parse_gates(emulated_version, gates),
            bind_address=bind_address,
            secure_port=secure_port,
            leader_elect=leader_elect,
            verbosity=verbosity,
        )
        return command(options=options, **rest)

    return wrapped


def parse_gates(version: Version, text: str) -> FeatureGates:
    """Returns the gates of `version` as `text` sets them; raises a usage error (exit 2) where upstream
    refuses the flag."""
    try:
        return FeatureGates.parse(version, text)
    except ValueError as error:
        raise click.UsageError(f"--feature-gates: {error}") from error


def set_up_logging(verbosity: int) -> None:
    """Logs to standard error, one line per record."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if verbosity >= 4 else logging.INFO,
        format="%(asctime)s.%(msecs)03dZ %(levelname).1s %(name)s: %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    logging.Formatter.converter = staticmethod(time.gmtime)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def run_component(
    name: str,
    options: ComponentOptions,
    main: Callable[[ComponentContext], Awaitable[None]],
    *,
    announce: bool = True,
    agent: str = "",
) -> None:
    """Runs `main` until SIGTERM or SIGINT, with client, health and metrics around it.

    `announce` writes the start and the graceful stop to the server's log under `name`; a process that is
    several components announces each of them itself. `agent` is the name in its user agent, by default
    `kube-NAME`.
    """
    set_up_logging(options.verbosity)
    _allow_open_files()
    run_loop(_run(name, options, main, announce, agent or _agent(name)))


def _allow_open_files() -> None:
    """Raises the limit of open files as far as the system allows, as Go programs do: a kubelet needs seven
    per node."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # the limit cannot be raised further
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run_loop(main: Awaitable[None]) -> None:
    """Run one coroutine on a uvloop event loop."""
    import uvloop

    async def awaited() -> None:
        await main

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(awaited())


def settle_memory() -> None:
    """Exempts all objects made so far from garbage collection.

    They are trees of plain values, freed without it; looking for cycles took a tenth of a pod's create.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def end_on_signals() -> None:
    """Has SIGTERM and SIGINT end the process at once, while it holds nothing that needs a clean end."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, os._exit, 128 + number)


def stop_on_signals(stop: asyncio.Event) -> None:
    """Has SIGTERM and SIGINT set `stop`; a second signal ends the process at once."""
    loop = asyncio.get_running_loop()

    def received(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        log.info("received %s, shutting down", signal.Signals(number).name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received, number)


async def until_stopped(work: Awaitable[None], stop: asyncio.Event) -> None:
    """Awaits `work`, which returns once `stop` is set; cancels it after STOP_SECONDS.

    So neither a server that accepts connections and never answers nor a start that waits for something can
    prevent the stop.
    """
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            await asyncio.wait({working}, timeout=STOP_SECONDS)
        if not working.done():
            log.warning("not stopped after %.0f s: giving up what is under way", STOP_SECONDS)
            working.cancel()
            await asyncio.wait({working})
            return
        working.result()
    finally:
        stopping.cancel()
        working.cancel()


def _agent(name: str) -> str:
    return name if name == "kubelet" else f"kube-{name}"


async def _run(
    name: str,
    options: ComponentOptions,
    main: Callable[[ComponentContext], Awaitable[None]],
    announce: bool,
    agent_name: str,
) -> None:
    from prometheus_client import CollectorRegistry

    from kubeskew.apimachinery.client.kubeconfig import KubeconfigError
    from kubeskew.apimachinery.client.rest import APIClient, user_agent
    from kubeskew.apimachinery.health import serve_health

    stop = asyncio.Event()
    stop_on_signals(stop)
    world = World(options.emulated_version, options.feature_gates, SystemClock(), SeededEntropy())
    agent = user_agent(agent_name, options.emulated_version)
    try:
        client = APIClient.from_kubeconfig(options.kubeconfig, agent)
    except KubeconfigError as error:
        raise click.UsageError(f"--kubeconfig: {error}") from error
    health = Health(CollectorRegistry())
    ctx = ComponentContext(
        name=name,
        world=world,
        client=client,
        health=health,
        stop=stop,
        options=options,
        identity=f"{os.uname().nodename}_{world.entropy.uid()}",
    )
    async with serve_health(health, options.bind_address, options.secure_port):
        try:
            settle_memory()
            announcing = asyncio.create_task(ctx.announce_start()) if announce else None
            await until_stopped(main(ctx), stop)
            if announcing is not None:
                announcing.cancel()
                await ctx.announce(name, "stopped")
        finally:
            await client.close()
