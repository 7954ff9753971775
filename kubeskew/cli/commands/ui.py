"""`kubeskew ui`: a page about the cluster, on loopback."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.cli.commands.options import (
    output_option,
    parse_gate_changes,
    print_json,
    run_async,
    show_progress,
    state_dir_option,
)
from kubeskew.cluster.failures import ClusterError
from kubeskew.cluster.fork_client import component_processes
from kubeskew.cluster.processes import Processes
from kubeskew.cluster.state import StateDir

if TYPE_CHECKING:
    from kubeskew.cli.ui.server import Site
    from kubeskew.cluster.cluster import Cluster

_HOST = "127.0.0.1"


@click.command()
@state_dir_option
@output_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port to listen on, on loopback [default: a free one].",
)
def ui(directory: StateDir, output: str, port: int) -> None:
    """Serve a page that shows the cluster now and at any moment before.

    The page has a time line of all writes and buttons to change the cluster. The command prints the page's
    address and serves it until Ctrl-C. The address contains the administrator's token: keep it to yourself.
    The cluster may be down: the page then shows its past.

    \b
    kubeskew ui
    kubeskew ui --port 8080
    kubeskew ui -o json
    """
    directory.load()
    token = _token(directory)
    with component_processes() as processes:
        site = _site(directory, token, processes)

        def listening(actual: int) -> None:
            url = f"http://{_HOST}:{actual}/#token={token}"
            if output == "json":
                print_json({"url": url, "port": actual})
            else:
                click.echo(f"The cluster is shown at\n\n  {url}\n\nCtrl-C ends this; the cluster goes on.")

        with suppress(KeyboardInterrupt):  # Ctrl-C is the usual end
            run_async(_serve(site, port, listening))


def _token(directory: StateDir) -> str:
    """A missing or empty file of the administrator's token is a ClusterError."""
    remedy = "`kubeskew down --purge` and `kubeskew up` make a cluster that has one"
    try:
        token = directory.token.read_text().strip()
    except OSError as error:
        raise ClusterError(
            f"cannot read the administrator's token, {directory.token}: {error.strerror}; "
            f"put it back, or {remedy}"
        ) from error
    if not token:
        raise ClusterError(
            f"the administrator's token, {directory.token}, is empty; put it back, or {remedy}"
        )
    return token


def _site(directory: StateDir, token: str, processes: Processes) -> "Site":
    from kubeskew.apimachinery.versions import supported
    from kubeskew.cli.ui.actions import Actions
    from kubeskew.cli.ui.log_recorder import Recording
    from kubeskew.cli.ui.server import Site, page, script
    from kubeskew.cluster.cluster import Cluster
    from kubeskew.cluster.platform import Platform
    from kubeskew.conformance.evidence.node_files import node_records

    clock = SystemClock()

    def cluster(progress: Callable[[str], None]) -> "Cluster":
        def report(text: str) -> None:
            progress(text)
            show_progress(text)

        return Cluster(directory, Platform(clock, processes), report)

    def components() -> list[dict[str, Any]]:
        state = directory.load()
        return [
            {"name": name, "version": process.version, "runs": processes.alive(process.pid, process.birth)}
            for name, process in state.components().items()
        ]

    return Site(
        Recording(lambda: directory.storage_url, clock),
        lambda: node_records(directory),
        components,
        [str(version) for version in supported()],
        Actions(cluster, parse_gate_changes),
        token,
        str(directory.token),
        page(str(directory.path)),
        script(),
    )


async def _serve(site: "Site", port: int, listening: Callable[[int], None]) -> None:
    """Serves until it is cancelled; `listening` is called with the port."""
    from aiohttp import web

    from kubeskew.cli.ui.server import application

    runner = web.AppRunner(application(site), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        server = web.TCPSite(runner, _HOST, port)
        try:
            await server.start()
        except OSError as error:
            raise ClusterError(
                f"cannot listen on port {port}: {error.strerror}; choose another --port"
            ) from error
        (address,) = runner.addresses
        listening(address[1])
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
