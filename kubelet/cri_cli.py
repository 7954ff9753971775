"""`kubeskew cri`: the container runtime of a node, for a real kubelet that somebody starts."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubeskew.apimachinery.process.component import verbosity_option
from kubeskew.apimachinery.process.machine import Machine, SystemMachine, machine_given

if TYPE_CHECKING:
    from kubeskew.kubelet.runtimes import NodeRuntime

_UNIX = "unix://"
_LONGEST_SOCKET = 107  # bytes of a path (linux/un.h)
_SIMULATED, _HOST = "simulated", "host"
_NODE = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


def _socket(_context: click.Context, _parameter: click.Parameter, value: str) -> Path:
    if not value.startswith(_UNIX):
        raise click.BadParameter(f"{value} is no URL such as {_UNIX}/run/kubeskew/cri.sock")
    path = Path(value.removeprefix(_UNIX))
    if not path.is_absolute():
        raise click.BadParameter(f"{value}: the path has to be absolute")
    if len(str(path).encode()) > _LONGEST_SOCKET:
        raise click.BadParameter(f"{value}: the path is longer than {_LONGEST_SOCKET} bytes")
    if not path.parent.is_dir():
        raise click.BadParameter(f"{value}: there is no directory {path.parent}")
    if path.exists() and not path.is_socket():
        raise click.BadParameter(f"{path} is there and no socket")
    return path


def _node(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if _NODE.fullmatch(value) is None:
        raise click.BadParameter(f"{value!r} is no name of a node")
    return value


def _images(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Path]:
    images = {}
    for value in values:
        name, equals, path = value.partition("=")
        if not name or not equals or not path:
            raise click.BadParameter(f"{value} is not NAME=PATH")
        images[name] = Path(path).expanduser().absolute()
        if not images[name].exists():
            raise click.BadParameter(f"{value}: there is no {path}")
    return images


@click.command("cri")
@click.option(
    "--listen", "socket", required=True, callback=_socket, metavar="unix:///PATH", help="The socket to serve."
)
@click.option(
    "--runtime",
    type=click.Choice([_SIMULATED, _HOST]),
    default=_SIMULATED,
    show_default=True,
    help="What runs containers: they are acted, or are processes of this machine.",
)
@click.option(
    "--root-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    required=True,
    help="The directory for the nodes' state: containers, images, CDI specs.",
)
@click.option(
    "--node-name", default="node", show_default=True, callback=_node, help="The node: its directory's name."
)
@click.option(
    "--image",
    "images",
    multiple=True,
    callback=_images,
    metavar="NAME=PATH",
    help="An image, whose name may have wildcards: a root file system, an OCI layout, an archive, or a "
    "program; repeatable. Only for --runtime host.",
)
@click.option(
    "--clean-up",
    "cleans_up",
    is_flag=True,
    help="End the processes of the node's containers that an earlier one has left, and exit.",
)
@verbosity_option
def cri(
    socket: Path,
    runtime: str,
    root_dir: Path,
    node_name: str,
    images: Mapping[str, Path],
    cleans_up: bool,
    verbosity: int,
) -> None:
    """Serve CRI v1 in the foreground: a real kubelet can run its pods on it.

    \b
    kubeskew cri --listen unix:///run/kubeskew.sock --root-dir nodes --node-name node-1
    kubelet --config config.yaml --hostname-override node-1 …   (containerRuntimeEndpoint: the URL)
    """
    if images and runtime == _SIMULATED:
        raise click.UsageError("--image: only --runtime host has images; simulated containers need none")
    directory = _node_directory(root_dir, node_name)
    if cleans_up:
        from kubeskew.kubelet.containers.host.cleanup import cleanup

        cleanup(directory)
        return
    machine = machine_given(SystemMachine)
    machine.log(verbosity)
    machine.run(_serve(machine, socket, directory, node_name, runtime, images))


def _node_directory(root: Path, name: str) -> Path:
    directory = root.absolute() / name
    try:
        directory.mkdir(exist_ok=True, mode=0o700)
    except OSError as error:
        raise click.UsageError(f"--root-dir: cannot make {directory}: {error.strerror}") from error
    return directory


async def _serve(
    machine: Machine, socket: Path, directory: Path, node: str, kind: str, images: Mapping[str, Path]
) -> None:
    from kubeskew.apimachinery.process.runtime import stop_on_signals
    from kubeskew.kubelet.containers.host.cleanup import cleanup
    from kubeskew.kubelet.containers.runtime_service import ContainerRuntimeError
    from kubeskew.kubelet.cri_service import CRIService
    from kubeskew.kubelet.files import UNJOURNALLED

    stop = asyncio.Event()
    stop_on_signals(stop, machine.exit)
    runtime = _runtime(machine, directory, node, kind, images)
    service = CRIService(
        runtime, directory, directory / "cdi", UNJOURNALLED, machine.clock, machine.entropy()
    )
    try:
        await service.start(socket)
    except (ContainerRuntimeError, OSError) as error:
        raise click.UsageError(f"cannot serve {_UNIX}{socket}: {error}") from error
    try:
        click.echo(f"serving CRI v1 at {_UNIX}{socket}")
        if kind == _HOST and not _passes_mounts_on():
            click.echo(
                "note: mounts of a kubelet, such as service accounts' tokens, do not reach containers: "
                "run `mount --make-rshared /` before both",
                err=True,
            )
        await stop.wait()
    finally:
        await service.stop()
        if kind == _HOST and not any(sandbox.ready for sandbox in runtime.runtime.sandboxes()):
            cleanup(directory)  # with the last pod goes the process that starts containers


def _passes_mounts_on() -> bool:
    """Containers see what is mounted later, for / is shared (proc(5), mountinfo)."""
    fields = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return any(each[4] == "/" and any(field.startswith("shared:") for field in each[6:]) for each in fields)


def _runtime(
    machine: Machine, directory: Path, node: str, kind: str, images: Mapping[str, Path]
) -> "NodeRuntime":
    from kubeskew.kubelet.runtimes import NodeRuntime

    clock, entropy = machine.clock, machine.entropy()
    if kind == _SIMULATED:
        from kubeskew.kubelet.containers.simulated.runtime import SimulatedImages, SimulatedRuntime

        return NodeRuntime(SimulatedRuntime(directory / "runtime", node, clock, entropy), SimulatedImages())
    from kubeskew.kubelet.containers.host.image_service import HostImages
    from kubeskew.kubelet.containers.host.images.store import ImageSource, ImageStore
    from kubeskew.kubelet.containers.host.runtime import HostRuntime

    sources = {
        name: ImageSource(program=path) if _is_program(path) else ImageSource(path=path)
        for name, path in images.items()
    }
    found = HostImages(directory / "images.json", ImageStore(directory / "images"), sources)
    runtime = HostRuntime(directory / "runtime", node, found, clock, entropy, rotates_logs=False)
    return NodeRuntime(runtime, found)


def _is_program(path: Path) -> bool:
    """Archives are no programs, whatever their mode says."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4).startswith((b"\x7fELF", b"#!"))
