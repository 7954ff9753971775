"""The interface of a cluster that a scenario steers: a client, and for the added operations the means to
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
    """A cluster that a cell runs on. The supervisor implements it; so does any kubeconfig, with less."""

    @property
    def kubeconfig(self) -> Path: ...

    @property
    def runtime_config(self) -> Mapping[str, bool]:
        """The APIs that its API servers serve or not, as they were told."""
        ...

    def client(self, context: str = "") -> APIClient:
        """A new client as the administrator, by a context of the kubeconfig; the caller closes it."""
        ...

    async def start(self, cluster: Mapping[str, Any]) -> None:
        """Start the cluster that the scenario's header describes (a cluster file's value)."""
        ...

    async def stop(self) -> None:
        """End the cluster and free what it held."""
        ...

    async def upgrade(self, to: str, components: Sequence[str], *, force: bool) -> None: ...

    async def downgrade(self, to: str, components: Sequence[str], *, force: bool) -> None: ...

    async def gates(self, gates: Mapping[str, bool | None], components: Sequence[str]) -> None: ...

    async def restart(self, component: str) -> None: ...

    async def kill(self, component: str) -> None: ...

    async def fork(self, names: Sequence[str]) -> Sequence["ClusterControl"]:
        """Branch the cluster off, once for each name; the branches run, and this cluster does not any more.

        They end with this one.
        """
        ...

    async def driver(self, name: str, nodes: Sequence[str], switches: Mapping[str, Any]) -> None:
        """Change what goes wrong in a driver, on these nodes or on all of its own."""
        ...

    async def remove_kubelet_files(self, node: str, names: Sequence[str]) -> None:
        """Remove files of a node's kubelet, by their paths below its root directory. Raises UserError."""
        ...

    async def configure_kubelet(self, node: str, settings: Mapping[str, Any]) -> None:
        """Change settings of a node's kubelet, from its next start on. Raises UserError."""
        ...

    async def kubelet_file(self, node: str, name: str) -> str | None:
        """Returns the text of a file of a node's kubelet; None if there is none. Raises UserError."""
        ...

    async def kept_nodes(self) -> Sequence[KeptNode]:
        """Returns the nodes whose kubelets have left files, with these."""
        ...

    async def set_fault(self, body: Mapping[str, Any]) -> str:
        """Have something go wrong in a component; returns the fault's id."""
        ...

    async def clear_faults(self, name: str) -> Sequence[FaultReport]:
        """Take a fault away, or `all`; returns how far they had come."""
        ...

    async def await_fault(self, name: str, seconds: float) -> FaultReport:
        """Returns how far a fault has come once it has fired, or after so long."""
        ...

    async def faults(self) -> Sequence[FaultReport]:
        """Returns how far every fault has come."""
        ...

    async def prepared(self) -> Mapping[str, Sequence[PreparedClaim]]:
        """By node, the claims whose devices its kubelet holds prepared; no node that does not answer."""
        ...

    async def node_records(self) -> NodeRecords:
        """Everything that drivers and runtimes of the nodes have recorded."""
        ...

    async def metrics(self, components: Sequence[str], path: str) -> Mapping[str, str]:
        """Returns the metrics of components in Prometheus' text format, by process: some share one."""
        ...

    async def component_logs(
        self, component: str, offsets: Mapping[str, int]
    ) -> Mapping[str, tuple[str, int]]:
        """Returns the whole lines of a component's logs behind offsets, and the offsets behind them, by
        process: `driver/NAME` has two."""
        ...

    async def revision(self) -> int:
        """The newest revision of the cluster's store."""
        ...

    async def hashes(self) -> tuple[str, str]:
        """The SHA-256 of the objects that the log comes to when replayed, and that of those there are."""
        ...

    async def log(self) -> Sequence[Logged]:
        """Everything that was written and every change of a component, oldest first."""
        ...

    async def violations(self, log: Sequence[Logged]) -> Sequence[Violation] | None:
        """Returns what never may happen and did, by the log so far and by what components and nodes say.

        None where the cluster is not judged at the end of its cell: it is not ours, or it is judged when its
        faults are healed.
        """
        ...

    async def entries(self) -> Sequence[Entry]:
        """Every stored object, as its bytes are."""
        ...

    async def events(self, since: int) -> Sequence[Mapping[str, Any]]:
        """The log's events after a revision, and component events, oldest first."""
        ...
