"""CRI v1 at a Unix socket: a node's container runtime, its images and its streams, as real kubelets want
them."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.kubelet.cdi import injected
from kubeskew.kubelet.containers.cri.image_server import ImageServer
from kubeskew.kubelet.containers.cri.records import Records
from kubeskew.kubelet.containers.cri.runtime_server import Acted, RuntimeServer, Surroundings, not_acted
from kubeskew.kubelet.containers.runtime_faults import RuntimeFaults
from kubeskew.kubelet.files import StateFiles
from kubeskew.kubelet.protocols.grpc_calls import new_server
from kubeskew.kubelet.protocols.message_sockets import Server
from kubeskew.kubelet.runtimes import NodeRuntime
from kubeskew.kubelet.server.streaming import StreamingServer

_RECORDS = "cri"  # the directory of requests and statuses, in the node's
_STOP_SECONDS = 0.2  # for calls under way


class CRIService:
    """Serves the runtime of one node while `run` runs. The containers go on without it."""

    def __init__(
        self,
        runtime: NodeRuntime,
        node: Path,
        cdi: Path,
        files: StateFiles,
        clock: Clock,
        entropy: Entropy,
        *,
        places: Sequence[tuple[str, Path]] = (),
        acted: Acted = not_acted,
        faults: RuntimeFaults | None = None,
    ) -> None:
        """`node` is the node's directory, `cdi` that of its CDI specs. `places` lead from directories of the
        kubelet's machine to those of this one, where they differ. `faults` meet the kubelet's calls.
        """
        self._faults = faults
        self._streaming = StreamingServer(runtime.runtime, clock, entropy)
        self._runtime = RuntimeServer(
            runtime.runtime,
            runtime.images,
            Records(node / _RECORDS, files),
            self._streaming,
            Surroundings(partial(injected, cdi), partial(_here, places), acted),
            clock,
            entropy,
        )
        self._images = ImageServer(runtime.images, clock, str(node))
        self._server: Server | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self, socket: Path) -> None:
        """Raises ContainerRuntimeError if the runtime cannot run anything, OSError for the socket."""
        await self._runtime.load()
        await self._streaming.start()
        self._server = new_server()
        self._runtime.serve(self._server, self._faults)
        self._images.serve(self._server, self._faults)
        socket.unlink(missing_ok=True)  # noqa: ASYNC240 - of a service that was killed
        self._server.listen(socket)
        await self._server.start()
        self._running = asyncio.create_task(self._runtime.run(), name="container runtime")

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        await self._runtime.close()
        if self._server is not None:
            await self._server.stop(_STOP_SECONDS)
        await self._streaming.stop()


def _here(places: Sequence[tuple[str, Path]], path: str) -> Path:
    for theirs, ours in places:
        if path == theirs or path.startswith(f"{theirs}/"):
            return Path(f"{ours}{path.removeprefix(theirs)}")
    return Path(path)
