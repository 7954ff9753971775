"""A cell's cluster in memory: a server that keeps objects, a control that notes what is asked of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import yaml
from fake_server import FakeServer
from loop_clock import LoopClock

from kubeskew.apimachinery.client.kubeconfig import KubeconfigError
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.client.transport import Request
from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apiserver.storage.records import Entry
from kubeskew.conformance.evidence.log import Logged
from kubeskew.conformance.evidence.nodes import NodeRecords, PreparedClaim
from kubeskew.conformance.invariants.invariant import Violation
from kubeskew.conformance.loader import parse
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.runner import run_cell

HEAD = """
apiVersion: kubeskew.io/v1alpha1
kind: Scenario
spec: %s
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: t}
spec:
  timeouts: {assert: 2s, error: 2s, delete: 2s}
  steps:
"""
POD = "{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: a}}, spec: {}}"


class Served(FakeServer):
    """The server in memory, with discovery of pods."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.seen: list[Request] = []
        self.logs: str | None = None  # of every pod

    async def __call__(self, request: Request) -> Any:
        self.seen.append(request)
        if request.target == "/api/v1":
            answer = await super().__call__(Request("GET", "/api/v1/none"))
            answer._content = orjson.dumps(
                {"resources": [{"name": "pods", "namespaced": True, "kind": "Pod"}]}
            )
            return answer
        if self.logs is not None and "/log" in request.target:
            answer = await super().__call__(Request("GET", "/api/v1/none"))
            answer._content, answer.headers = self.logs.encode(), {"Content-Type": "text/plain"}
            return answer
        return await super().__call__(request)


class Control:
    """A cluster that notes what was asked of it; `changing` is called by an upgrade."""

    kubeconfig = Path("/nowhere")

    def __init__(self) -> None:
        self.server = Served(LoopClock(), SeededEntropy(1))
        self.contexts: dict[str, Served] = {}  # other API servers, by the kubeconfig's contexts
        self.calls: list[Any] = []
        self.changing: Any = None
        self.text = ""
        self.held: dict[str, list[PreparedClaim]] = {}  # by node, the claims it holds prepared
        self.records = NodeRecords()
        self.logged: dict[str, str] = {}  # by process
        self.written: list[Logged] = []  # the log
        self.broken: list[Violation] | None = []  # what the judge finds; None: nobody judges
        self.judged: Sequence[Logged] = []  # by which log
        self.replayed = "a"  # the hash of what it comes to
        self.stored: list[Entry] = []
        self.runtime_config: dict[str, bool] = {}
        self.branches: dict[str, Control] = {}
        self.forked: Any = lambda: None  # is called when the branches are there

    def client(self, context: str = "") -> APIClient:
        if context not in ("", *self.contexts):
            raise KubeconfigError(f"kubeconfig has no context {context!r}")
        return self.contexts.get(context, self.server).client()

    async def start(self, cluster: Mapping[str, Any]) -> None:
        self.calls.append(("start", dict(cluster)))

    async def stop(self) -> None:
        self.calls.append("stop")

    async def upgrade(self, to: str, components: Sequence[str], *, force: bool) -> None:
        self.calls.append(("upgrade", to, list(components)))
        if self.changing:
            await self.changing()

    async def gates(self, gates: Mapping[str, bool], components: Sequence[str]) -> None:
        self.calls.append(("gates", dict(gates), list(components)))

    async def prepared(self) -> Mapping[str, Sequence[PreparedClaim]]:
        return self.held

    async def node_records(self) -> NodeRecords:
        return self.records

    async def revision(self) -> int:
        return self.server.revision

    async def metrics(self, components: Sequence[str], path: str) -> Mapping[str, str]:
        return dict.fromkeys(components, self.text)

    async def component_logs(
        self, component: str, offsets: Mapping[str, int]
    ) -> Mapping[str, tuple[str, int]]:
        processes = [name for name in self.logged if name.startswith(component)]
        texts = {name: self.logged[name] for name in processes}
        return {name: (text[offsets.get(name, 0) :], len(text)) for name, text in texts.items()}

    async def fork(self, names: Sequence[str]) -> Sequence["Control"]:
        self.calls.append(("fork", names))
        self.branches = dict(zip(names, (Control() for _ in names), strict=True))
        self.forked()
        return [*self.branches.values()]

    async def hashes(self) -> tuple[str, str]:
        return self.replayed, "a"

    async def log(self) -> Sequence[Logged]:
        return self.written

    async def violations(self, log: Sequence[Logged]) -> Sequence[Violation] | None:
        self.judged = log
        return self.broken

    async def kept_nodes(self):
        return []

    async def entries(self) -> Sequence[Entry]:
        return self.stored

    async def events(self, since: int) -> Sequence[Mapping[str, Any]]:
        return [{"revision": since + 1}]


async def run(steps: str, control: Control, header: str = "{cluster: {}}") -> CellResult:
    """Run the only cell of a scenario with these steps and this header."""
    [cell] = parse(list(yaml.safe_load_all(HEAD % header + steps)), "file").cells()
    return await run_cell(cell, control, LoopClock(), lambda _: None)
