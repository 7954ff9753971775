"""The commands that start, change and stop a cluster: from `up` to `down`, with `fork` and `rewind`."""

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import click

from kubeskew.apimachinery.periods import TIMES
from kubeskew.apimachinery.process.component import bugs_option
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.storage.urls import database_of, without_password
from kubeskew.cli import completion, terminal
from kubeskew.cli.commands.options import (
    VERSION,
    change,
    change_timed,
    component_option,
    output_option,
    parse_gate_changes,
    parse_gates,
    print_json,
    programs_options,
    show_progress,
    state_dir_option,
)
from kubeskew.cluster.change_plan import disagreements
from kubeskew.cluster.clusterfile import LIKE
from kubeskew.cluster.config import (
    DEFAULT_NODES,
    ClusterSpec,
    absolute,
    check_storage,
    is_program,
    load,
    numbered_nodes,
)
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.programs.selection import ProgramFlags
from kubeskew.cluster.skew import UPGRADE_ORDER
from kubeskew.cluster.state import StateDir
from kubeskew.kubelet.node.config import CRI, ENDPOINT, RUNTIMES

to_option = click.option("--to", type=VERSION, required=True, help="The version to go to.")
force_option = click.option(
    "--force",
    is_flag=True,
    help="Allow a skew that upstream does not support, and real programs of another minor.",
)
force_programs_option = click.option(
    "--force", is_flag=True, help="Accept real programs of another minor than their components."
)


@click.command()
@state_dir_option
@click.option("--version", type=VERSION, help="Kubernetes version of every component [default: 1.36].")
@click.option("--nodes", type=click.IntRange(0), help="Number of fake nodes [default: 3].")
@click.option(
    "--feature-gates",
    shell_complete=completion.gates,
    default="",
    metavar="A=true,B=false",
    help="Feature gates to turn on or off in every component that knows them.",
)
@bugs_option
@click.option(
    "--ha", "servers", type=click.IntRange(1, 9), help="Number of API servers [default: 1, or the file's]."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the API server; with --ha, of all of them [default: a free one].",
)
@click.option(
    "--like",
    type=click.Choice(LIKE),
    help="Make the cluster look like one of kind: with a control-plane node, its static pods, CoreDNS and "
    "kube-proxy. With --nodes 0 that node is the only one and runs all pods, as kind does by default.",
)
@click.option(
    "--storage",
    default="",
    metavar="URL",
    help="Database for the cluster's data: postgresql://USER@HOST/DATABASE [default: a file in the state "
    "directory].",
)
@click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False), help="A cluster file (docs/cluster-file.md)."
)
@click.option(
    "--time",
    type=click.Choice(TIMES),
    help="How long components wait where nothing happens: real is as in Kubernetes, quick shorter in some "
    "places (docs/time.md) [default: quick, or the file's].",
)
@click.option("--runtime", type=click.Choice(RUNTIMES), help="What runs containers [default: simulated].")
@click.option(
    "--container-runtime-endpoint",
    "endpoint",
    default="",
    metavar="unix:///PATH",
    help="The socket of a container runtime, such as containerd, on which pods run (--runtime cri).",
)
@click.option(
    "--image",
    "images",
    multiple=True,
    metavar="NAME=PATH",
    help="What an image is, by its name with wildcards: a directory, an OCI archive, or a program.",
)
@programs_options
@force_programs_option
def up(
    directory: StateDir,
    version: Version | None,
    nodes: int | None,
    feature_gates: str,
    bugs: dict[str, bool],
    servers: int | None,
    port: int,
    like: str | None,
    storage: str,
    config: Path | None,
    time: str | None,
    runtime: str | None,
    endpoint: str,
    images: tuple[str, ...],
    programs: ProgramFlags,
    force: bool,
) -> None:
    """Start a cluster in the background, and return when it is ready.

    If the state directory has a cluster already, it is started as it was left, also after a crash.

    \b
    kubeskew up
    kubeskew up --version 1.35 --nodes 1 --feature-gates DRAExtendedResource=true
    kubeskew up --version 1.33.5 --bugs k8s-132334=off
    kubeskew up --like kind --nodes 2
    kubeskew up --storage postgresql://kubeskew@db.example.com/kubeskew
    kubeskew up --config cluster.yaml
    kubeskew up --time real
    kubeskew up --runtime host --image 'busybox*=/bin/busybox'
    kubeskew up --container-runtime-endpoint unix:///run/containerd/containerd.sock
    kubeskew up --version 1.36 --binaries ~/kubernetes --real scheduler,controller-manager
    """
    if directory.rewind_interrupted():
        from kubeskew.cluster.branches import resume_rewind

        resume_rewind(directory, show_progress)
    base = load(config) if config else ClusterSpec(nodes=numbered_nodes(DEFAULT_NODES))
    spec = base.with_flags(
        *(version, parse_gates(feature_gates), nodes, servers, port, bugs, like or ""),
        check_storage(storage or None, "--storage"),
        *_programs(directory, base, programs),
        containers=_containers(runtime, endpoint, images),
        time=time or "",
    )
    if directory.exists():
        given = {
            "version": version or config,
            "gates": feature_gates or config,
            "bugs": bugs or config,
            "nodes": config,
            "count": nodes is not None,
            "servers": servers or config,
            "port": port,
            "like": like,
            "metrics": config,
            "binaries": base.binaries
            or (programs.binaries and (programs.named or programs.real is not None)),
            "real": programs.real is not None or base.real,
            "programs": config,
            "workers": config,
            "containers": config or runtime or endpoint or images,
            "time": config or time,
        }
        _check_agreement(directory, spec, {name for name, said in given.items() if said})
        _check_storage(directory, spec)
    change_timed(directory, lambda cluster: cluster.up(spec, force=force), *UPGRADE_ORDER)
    click.echo(f"The cluster is ready. Use it with:\n\n  export KUBECONFIG={directory.kubeconfig.absolute()}")
    click.echo(terminal.complete_commands("  kubectl get nodes\n\nStop it with `kubeskew down`."))


def _containers(runtime: str | None, endpoint: str, images: Sequence[str]) -> dict[str, Any]:
    """The settings of containers that flags give, as in a cluster file. Raises UserError."""
    found: dict[str, Any] = {"runtime": runtime} if runtime else {}
    if endpoint:
        if runtime not in (None, CRI):
            raise UserError(f"--container-runtime-endpoint: is for --runtime {CRI}")
        found = {"runtime": CRI, ENDPOINT: endpoint}
    entries = {}
    for text in images:
        name, equals, path = text.rpartition("=")
        if not equals or not name or not path:
            raise UserError(f"--image: expected NAME=PATH, found {text!r}")
        place = Path(absolute(path, Path.cwd()))
        if not place.exists():
            raise UserError(f"--image: there is no {place}")
        entries[name] = {"program" if is_program(place) else "path": str(place)}
    return {**found, **({"images": entries} if entries else {})}


def _programs(directory: StateDir, base: ClusterSpec, flags: ProgramFlags) -> tuple[str, Sequence[str]]:
    """Components that a cluster file does not name may be those of the cluster that is there already."""
    known = directory.load().real if directory.exists() and not base.real else base.real
    binaries, _ = flags.over(base.binaries, known)
    return binaries, base.real if flags.real is None else flags.real


def _check_agreement(directory: StateDir, spec: ClusterSpec, given: Collection[str]) -> None:
    """An existing cluster that differs from the flags is refused with UserError."""
    found = disagreements(directory.load(), spec, given)
    if found:
        raise UserError(
            f"there is another cluster in {directory.path} already: {'; '.join(found)}. Change it with "
            "upgrade, downgrade, gates or restart, pick it up as it is with `kubeskew up` alone, "
            "or remove it with `kubeskew down --purge`"
        )


def _check_storage(directory: StateDir, spec: ClusterSpec) -> None:
    """An existing log in another database than the flags name is refused with UserError."""
    url = directory.storage_url
    if spec.storage and database_of(spec.storage) != database_of(url):
        raise UserError(
            f"the log of the cluster in {directory.path} is at {without_password(url)}, not at "
            f"{without_password(spec.storage)}: leave --storage out, or name another --state-dir"
        )


@click.command()
@state_dir_option
@click.option("--purge", is_flag=True, help="Remove the cluster's data too: the log, credentials and all.")
def down(directory: StateDir, purge: bool) -> None:
    """Stop the cluster; its data stays unless --purge is given.

    \b
    kubeskew down
    kubeskew down --purge
    """
    change_timed(directory, lambda cluster: cluster.down(purge=purge))


@click.command()
@state_dir_option
@to_option
@component_option
@force_option
@programs_options
def upgrade(
    directory: StateDir, to: Version, components: tuple[str, ...], force: bool, programs: ProgramFlags
) -> None:
    """Bring components to a newer version.

    Without --component all are upgraded, in upstream's order: API servers, controller manager, scheduler,
    kubelets. Each is stopped, and started again at the new version.

    \b
    kubeskew upgrade --to 1.36
    kubeskew upgrade --to 1.36 --component apiserver
    kubeskew upgrade --to 1.36 --binaries ~/kubernetes --real scheduler
    """
    change_timed(
        directory,
        lambda cluster: cluster.move(to, components, downgrade=False, force=force, programs=programs),
    )


@click.command()
@state_dir_option
@to_option
@component_option
@force_option
@programs_options
def downgrade(
    directory: StateDir, to: Version, components: tuple[str, ...], force: bool, programs: ProgramFlags
) -> None:
    """Bring components to an older version.

    Without --component all are downgraded, in the reverse order of an upgrade: kubelets, scheduler,
    controller manager, API servers. Each is stopped, and started again at the old version.

    \b
    kubeskew downgrade --to 1.35
    kubeskew downgrade --to 1.35 --component kubelet/node-1
    """
    change_timed(
        directory,
        lambda cluster: cluster.move(to, components, downgrade=True, force=force, programs=programs),
    )


@click.command()
@state_dir_option
@click.argument("gates", metavar="A=true,B=false,C-", shell_complete=completion.gates)
@component_option
def gates(directory: StateDir, gates: str, components: tuple[str, ...]) -> None:
    """Turn feature gates on or off; the components restart with them.

    NAME=true turns a gate on, NAME=false turns it off, and NAME- gives it the default of its release again.
    Without --component every component that knows the gate gets it.

    \b
    kubeskew gates DRAExtendedResource=false
    kubeskew gates DRAExtendedResource=true --component scheduler
    kubeskew gates DRAExtendedResource-
    """
    parsed = parse_gate_changes(gates)
    if not parsed:
        raise UserError("no gate given: write NAME=true, NAME=false or NAME-")
    change_timed(directory, lambda cluster: cluster.set_gates(parsed, components))


@click.command()
@state_dir_option
@click.argument("component", shell_complete=completion.components)
@programs_options
@force_programs_option
def restart(directory: StateDir, component: str, programs: ProgramFlags, force: bool) -> None:
    """Stop a component gracefully and start it again.

    \b
    kubeskew restart scheduler
    kubeskew restart kubelet/node-1
    kubeskew restart driver/gpu.example.com               its plugins and its controller, if it has one
    kubeskew restart driver-plugin/gpu.example.com        its plugins alone
    kubeskew restart scheduler --binaries ~/kubernetes --real scheduler
    kubeskew restart scheduler --real none
    """
    change_timed(directory, lambda cluster: cluster.restart(component, programs, force=force))


@click.command()
@state_dir_option
@click.argument("component", shell_complete=completion.components)
def kill(directory: StateDir, component: str) -> None:
    """End a component with SIGKILL; it stays down until it is restarted.

    \b
    kubeskew kill scheduler
    kubeskew restart scheduler
    kubeskew kill driver/gpu.example.com                  its plugins and its controller, if it has one
    kubeskew kill driver-controller/gpu.example.com       its controller alone
    """
    change_timed(directory, lambda cluster: cluster.kill(component))


@click.command()
@state_dir_option
@output_option
@click.option(
    "--at", "revision", type=click.IntRange(1), required=True, metavar="REV", help="The revision to fork at."
)
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path))
def fork(directory: StateDir, output: str, revision: int, target: Path) -> None:
    """Make a second cluster from the state at a revision, in a new state directory.

    Revisions are the resource versions of objects; `kubeskew events` lists them. The new cluster has the
    objects, versions, gates, credentials and kubelets' files that the old one had at REV. Its nodes have the
    same names, its API server has another port. An upgrade or another change of a component that
    `kubeskew events` lists under REV is part of it; give REV - 1 to leave it out. The old cluster may run
    meanwhile, and does not change. DIR is a new or an empty directory, or one of a fork that was killed.

    \b
    kubeskew fork --at 300 other
    kubeskew --state-dir other up
    """
    made = change(directory, lambda cluster: cluster.fork(revision, StateDir(target.absolute())))
    if output == "json":
        document = {
            "directory": str(target.absolute()),
            "revision": made.revision,
            "events": made.events,
            "objects": made.objects,
            "sourceRevision": made.source_revision,
        }
        print_json(document)
        return
    click.echo(
        f"Forked at revision {made.revision} of {made.source_revision}: {made.events} events, "
        f"{made.objects} objects. Start it with:\n\n  kubeskew --state-dir {shlex.quote(str(target))} up"
    )


@click.command()
@state_dir_option
@output_option
@click.option(
    "--to",
    "revision",
    type=click.IntRange(1),
    required=True,
    metavar="REV",
    help="The revision to go back to.",
)
def rewind(directory: StateDir, output: str, revision: int) -> None:
    """Stop the cluster and take it back to a revision.

    Revisions are the resource versions of objects; `kubeskew events` lists them. Objects, versions, gates and
    the kubelets' files become what they were at REV. An upgrade or another change of a component that
    `kubeskew events` lists under REV stays; give REV - 1 to go back before it. What came later is kept in
    `rewound/REV` of the state directory. A watch or a list from a later revision fails, as from one that the
    server has not reached yet. If a rewind is interrupted, the next `up` or `rewind` finishes it, or reports
    that nothing has changed.

    \b
    kubeskew rewind --to 300
    kubeskew up
    """
    from kubeskew.cluster.branches import resume_rewind

    if resume_rewind(directory, show_progress) == revision:
        kept = None
    else:
        kept = change(directory, lambda cluster: cluster.rewind(revision))
    if output == "json":
        print_json({"revision": revision, "kept": str(kept) if kept else None})
        return
    if kept is not None:
        click.echo(f"What was cut off is kept in {kept}.")
    click.echo(
        terminal.complete_commands(
            f"The cluster is stopped, at revision {revision}. Start it with `kubeskew up`."
        )
    )
