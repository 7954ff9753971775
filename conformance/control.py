"""The interface of a cluster that a scenario steers: a client, and the methods behind the operations that
change it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.faults.fault import FaultReport
from kubeskew.apiserver.storage.records import Entry
from kubeskew.conformance.evidence.log import Logged
from kubeskew.conformance.evidence.nodes import NodeRecords, PreparedClaim
from kubeskew.conformance.invariants.invariant import Violation
from kubeskew.conformance.storage.nodes import KeptNode


class ClusterControl(Protocol):
    """A cluster that a cell runs on. The supervisor implements it; so does a kubeconfig, for reads and writes
    only."""

    @property
    def kubeconfig(self) -> Path: ...

    @property
    def runtime_config(self) -> Mapping[str, bool]:
        """APIs by `--runtime-config` of the API servers: true if served."""
        ...

    def client(self, context: str = "") -> APIClient:
        """The client is the administrator's, by a context of the kubeconfig; the caller closes it."""
        ...

    async def start(self, cluster: Mapping[str, Any]) -> None:
        """`cluster` is the value of a cluster file, as the scenario's header has it."""
        ...

    async def stop(self) -> None: ...

    async def upgrade(self, to: str, components: Sequence[str], *, force: bool) -> None: ...

    async def downgrade(self, to: str, components: Sequence[str], *, force: bool) -> None: ...

    async def gates(self, gates: Mapping[str, bool | None], components: Sequence[str]) -> None: ...

    async def restart(self, component: str) -> None: ...

    async def kill(self, component: str) -> None: ...

    async def fork(self, names: Sequence[str]) -> Sequence["ClusterControl"]:
        """Each name gets a running branch; this cluster does not run any more.

        The branches end with this one.
        """
        ...

    async def driver(self, name: str, nodes: Sequence[str], switches: Mapping[str, Any]) -> None:
        """Sets switches of a driver on these nodes, or on all of its own without any."""
        ...

    async def remove_kubelet_files(self, node: str, names: Sequence[str]) -> None:
        """Paths are below the kubelet's root directory. Raises UserError."""
        ...

    async def configure_kubelet(self, node: str, settings: Mapping[str, Any]) -> None:
        """Settings hold from the kubelet's next start on. Raises UserError."""
        ...

    async def kubelet_file(self, node: str, name: str) -> str | None:
        """None if there is no file of this name. Raises UserError."""
        ...

    async def kept_nodes(self) -> Sequence[KeptNode]:
        """Lists the nodes whose kubelets have left files, with these files."""
        ...

    async def set_fault(self, body: Mapping[str, Any]) -> str:
        """Returns the id of the fault."""
        ...

    async def clear_faults(self, name: str) -> Sequence[FaultReport]:
        """`all` takes every fault away; the reports say whether they had fired."""
        ...

    async def await_fault(self, name: str, seconds: float) -> FaultReport:
        """Waits until a fault has fired, for at most `seconds`."""
        ...

    async def faults(self) -> Sequence[FaultReport]: ...

    async def prepared(self) -> Mapping[str, Sequence[PreparedClaim]]:
        """Claims whose devices a kubelet holds prepared, by node; a node that does not answer is missing."""
        ...

    async def node_records(self) -> NodeRecords: ...

    async def metrics(self, components: Sequence[str], path: str) -> Mapping[str, str]:
        """Metrics in Prometheus' text format, by process: some components share one."""
        ...

    async def component_logs(
        self, component: str, offsets: Mapping[str, int]
    ) -> Mapping[str, tuple[str, int]]:
        """Whole lines behind the offsets, and the offsets behind these lines, by process: `driver/NAME` has
        two."""
        ...

    async def revision(self) -> int: ...

    async def hashes(self) -> tuple[str, str]:
        """SHA-256 of the objects that a replay of the log gives, and of the objects that are stored."""
        ...

    async def log(self) -> Sequence[Logged]:
        """Writes and changes of components, oldest first."""
        ...

    async def violations(self, log: Sequence[Logged]) -> Sequence[Violation] | None:
        """Lists invariants that did not hold, by the log so far and by what components and nodes report.

        None where the cluster is not judged at the end of its cell: it is not ours, or it is judged when its
        faults are healed.
        """
        ...

    async def entries(self) -> Sequence[Entry]: ...

    async def events(self, since: int) -> Sequence[Mapping[str, Any]]:
        """Events of the log after a revision, and component events, oldest first."""
        ...
