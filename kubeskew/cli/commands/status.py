"""`kubeskew status`, `kubeconfig` and `logs`, which only read."""

import asyncio
import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from kubeskew.apimachinery.clock import Clock, SystemClock
from kubeskew.apimachinery.known_bugs import bugs_flag
from kubeskew.apiserver.storage.urls import without_password
from kubeskew.cli import completion, terminal
from kubeskew.cli.commands.options import (
    output_option,
    print_json,
    print_table,
    run_async,
    state_dir_option,
    table,
)
from kubeskew.cli.terminal import echo
from kubeskew.cluster.change_plan import select
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.probes import HTTPTransport, Probes
from kubeskew.cluster.processes import ExecutedProcesses, alive, interleaved_logs, log_lines_behind
from kubeskew.cluster.state import Process, State, StateDir
from kubeskew.kubelet.node.config import NodeLayout

FOLLOW_SECONDS = 0.1
WATCH_SECONDS = 1.0

_DOWN = frozenset({"Killed", "Stopped", "Ended"})


@click.command()
@state_dir_option
@output_option
@click.option("-w", "--watch", is_flag=True, help="Show it again after each change.")
def status(directory: StateDir, output: str, watch: bool) -> None:
    """Show every component with its version, gates, process and log.

    \b
    kubeskew status
    kubeskew status --watch
    kubeskew status -o json
    """
    if watch:
        with suppress(KeyboardInterrupt):  # Ctrl-C is the usual end
            run_async(_watch(directory, output, SystemClock()))
    else:
        click.echo(run_async(_shown(directory, output)))


async def _watch(directory: StateDir, output: str, clock: Clock) -> None:
    """Prints the state whenever it has changed, on a terminal in the same place; does not end."""
    shown = ""
    while True:
        text = await _shown(directory, output)
        if text != shown:
            terminal.replace(text) if output == "table" else click.echo(text)
            shown = text
        await clock.sleep(WATCH_SECONDS)


async def _shown(directory: StateDir, output: str) -> str:
    state = directory.load()
    rows = await _rows(directory, state)
    if output == "json":
        document = {
            "server": state.server,
            "kubeconfig": str(directory.kubeconfig.absolute()),
            "stateDir": str(directory.path),
            "runtimeDir": state.runtime_dir or None,
            "storage": without_password(directory.storage_url),
            "binaries": state.binaries or None,
            "real": state.real,
            "components": rows,
            "nodes": [_node(directory, state, name) for name in state.nodes],
        }
        return json.dumps(document, indent=2)
    switched = any(row["bugs"] for row in rows)
    real = ["PROGRAM"] if any(row["program"] for row in rows) else []
    many = ["WORKERS"] if any("workers" in row for row in rows) else []
    bugs = ["BUGS"] if switched else []
    columns = ["COMPONENT", "VERSION", *real, "STATE", "PID", *many, "GATES", *bugs]
    texts = {"workers": ""}
    shown = [{**texts, **row, "pid": row["pid"] or "-", "program": row["program"] or ""} for row in rows]
    return "\n".join(table(columns, shown, (), terminal.width()))


async def _rows(directory: StateDir, state: State) -> list[dict[str, Any]]:
    components = state.components()
    running = [process for process in state.processes.values() if _runs(process)]
    async with Probes(HTTPTransport(directory), ExecutedProcesses()) as probes:
        ready = set().union(*await asyncio.gather(*(_ready(probes, process) for process in running)))
    return [_row(directory, state, name, process, ready) for name, process in components.items()]


async def _ready(probes: Probes, process: Process) -> set[str]:
    if process.kind == "kubelet":
        hosted = await probes.hosted(process) or {}
        return {f"kubelet/{node}" for node, state in hosted.items() if state["ready"]}
    return set() if await probes.missing(process) else {process.name}


def _runs(process: Process) -> bool:
    return alive(process.pid, process.birth)


def _row(
    directory: StateDir, state: State, name: str, process: Process, ready: Collection[str]
) -> dict[str, Any]:
    state_now = _state(state, name, process, ready)
    return {
        "component": name,
        "version": process.version,
        "state": state_now,
        "pid": process.pid if state_now not in _DOWN else None,
        **({"workers": process.worker_count} if process.worker_count > 1 else {}),
        "gates": ",".join(f"{gate}={str(on).lower()}" for gate, on in process.gates.items()),
        "bugs": bugs_flag(process.bugs),
        "log": str(directory.log(process.name).absolute()),
        "metrics": process.metrics_url(),
        "program": str(process.program) if process.program else None,
        "programPath": process.program.path if process.program else None,
    }


def _state(state: State, name: str, process: Process, ready: Collection[str]) -> str:
    if name.partition("/")[2] in state.killed_nodes or not process.wanted:
        return "Killed"
    if not _runs(process):
        return "Stopped" if process.pid == 0 else "Ended"
    return "Ready" if name in ready else "NotReady"


def _node(directory: StateDir, state: State, name: str) -> dict[str, str]:
    sockets = Path(state.runtime_dir) if state.runtime_dir else None
    layout = NodeLayout.under(directory.kubelet_root(), name, sockets)
    directories = {
        "rootDir": layout.node,
        "kubeletDir": layout.kubelet,
        "pluginsDir": layout.plugins,
        "registrarDir": layout.registry,
        "devicePluginsDir": layout.device_plugins,
        "podResourcesDir": layout.pod_resources,
        "cdiDir": layout.cdi,
    }
    return {"name": name, **{key: str(path.absolute()) for key, path in directories.items()}}


@click.command()
@state_dir_option
def kubeconfig(directory: StateDir) -> None:
    """Print the administrator's kubeconfig.

    \b
    kubeskew kubeconfig > ~/.kube/config
    """
    directory.load()
    click.echo(directory.kubeconfig.read_text(), nl=False)


@click.command()
@state_dir_option
@click.argument("component", required=False, shell_complete=completion.components)
@click.option("-f", "--follow", is_flag=True, help="Follow the log as it grows.")
@output_option
def logs(directory: StateDir, component: str | None, follow: bool, output: str) -> None:
    """Print the log of a component; without a name, list all logs.

    For a driver with a controller, driver/NAME prints the lines of both processes in the order of their
    times, each after the name of its process; driver-plugin/NAME and driver-controller/NAME print those of
    one.

    \b
    kubeskew logs -o json
    kubeskew logs scheduler
    kubeskew logs kubelet/node-1 -f
    kubeskew logs driver/gpu.example.com
    """
    state = directory.load()
    components = state.components()
    if component is None:
        _list_logs(directory, components, output)
        return
    if output == "json":
        raise UserError(f"-o json is of the list of logs: leave it out, or leave out {component}")
    processes = dict.fromkeys(components[name].name for name in select(state, [component]))
    paths = {name: directory.log(name) for name in processes if directory.log(name).exists()}
    if not paths:
        path = directory.log(next(iter(processes)))
        raise ClusterError(f"{component} has not written a log yet: {path} does not exist")
    if follow:
        with suppress(KeyboardInterrupt):  # Ctrl-C is the usual end
            run_async(_follow(paths, SystemClock()))
        return
    _print_logs({name: path.read_text(errors="replace") for name, path in paths.items()})


def _list_logs(directory: StateDir, components: Mapping[str, Process], output: str) -> None:
    paths = {name: directory.log(process.name) for name, process in components.items()}
    there = {name: path for name, path in paths.items() if path.exists()}
    rows = [
        {"component": name, "bytes": path.stat().st_size, "file": str(path)} for name, path in there.items()
    ]
    if output == "json":
        print_json(rows)
    else:
        print_table(("COMPONENT", "BYTES", "FILE"), rows)


def _print_logs(logs: Mapping[str, str]) -> None:
    """Lines of several logs come in the order of their times, with their processes; a single log is
    unchanged.
    """
    if len(logs) == 1:
        echo(*logs.values(), nl=False)
        return
    for name, line in interleaved_logs(logs, SystemClock().now()):
        echo(f"{name}: {line}")


async def _follow(paths: Mapping[str, Path], clock: Clock) -> None:
    """Prints logs from the beginning and all lines that are added; does not end."""
    offsets = dict.fromkeys(paths, 0)
    while True:
        found = {name: log_lines_behind(path, offsets[name]) for name, path in paths.items()}
        offsets = {name: offset for name, (_, offset) in found.items()}
        _print_logs({name: text for name, (text, _) in found.items()})
        await clock.sleep(FOLLOW_SECONDS)
