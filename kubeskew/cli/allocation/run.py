"""Allocates claims from files on the nodes of the files."""

from collections.abc import Mapping
from dataclasses import dataclass

from kubeskew.apimachinery.clock import SeededEntropy, deadline
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.cli.allocation.files import AllocationFiles
from kubeskew.cluster.failures import UserError
from kubeskew.scheduler.allocator.allocated_state import AllocatedDevices
from kubeskew.scheduler.allocator.allocator import Allocator, NodeSolution
from kubeskew.scheduler.allocator.claims import allocated_devices, allocation
from kubeskew.scheduler.allocator.errors import AllocationError
from kubeskew.scheduler.allocator.explaining import Explanation, explain
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.slice_index import SliceIndex
from kubeskew.scheduler.features.dynamic_resources import FILTER_SECONDS
from kubeskew.scheduler.features.scheduler import SchedulerFeatures
from kubeskew.scheduler.plugins.dynamicresources.device_classes import DeviceClasses
from kubeskew.scheduler.plugins.dynamicresources.taint_rules import TaintRules

_NOWHERE = "node"  # stands for any node, if the files name none


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    labels: Mapping[str, str]


class AllocationRun:
    """Keeps the books of a scheduler, filled from files."""

    def __init__(self, files: AllocationFiles, version: Version, gates: FeatureGates) -> None:
        self._files = files
        self._features = AllocatorFeatures.of(version, gates)
        scheduler_features = SchedulerFeatures.of(version, gates)
        if not scheduler_features.devices:
            hint = "choose 1.31 or later" if version.minor < 31 else "set DynamicResourceAllocation=true"
            raise UserError(f"the scheduler of {version} allocates no devices: {hint}")
        classes = DeviceClasses()
        for device_class in files.classes.values():
            classes.set_class(device_class)
        taints = TaintRules(
            classes.get, self._features.cel, taints_all_unselected=self._features.taints_all_unselected
        )
        for rule in files.rules.values() if scheduler_features.device_taint_rules else ():
            taints.set_rule(rule)
        self._slices = SliceIndex(self._features)
        for slice_ in files.slices.values():
            self._slices.set_slice(taints.patched(slice_))
        self._state = self._allocated().state
        self._allocator = Allocator(self._features, classes, self._slices, self._state, SeededEntropy().uid)
        self.claim_names = [key for key, claim in files.claims.items() if allocation(claim) is None]
        if not self.claim_names:
            raise UserError("the files have no claim without an allocation")
        self._plans = self._allocator.plan([files.claims[name] for name in self.claim_names])

    def _allocated(self) -> AllocatedDevices:
        book = AllocatedDevices()
        for claim in self._files.claims.values():
            shares = self._features.gates.consumable_capacity
            for device in allocated_devices(allocation(claim), shares=shares):
                book.add(*device)
        return book

    def on_nodes(self, only: str | None, *, explained: bool) -> list[Object]:
        """Returns `{"name", "allocations": […] | None, "error"?, "explanation"?}` per node."""
        labels = self._files.node_labels()
        if only is not None and labels and only not in labels:
            raise UserError(f"no node {only} in the files; there are {', '.join(sorted(labels))}")
        names = [only] if only is not None else list(labels) or [_NOWHERE]
        return [self._on_node(_Node(name, labels.get(name, {})), explained=explained) for name in names]

    def _on_node(self, node: _Node, *, explained: bool) -> Object:
        found: NodeSolution | None = None
        answer: Object = {"name": node.name, "allocations": None}
        try:
            found = self._allocator.find(node, self._plans, lambda: deadline(FILTER_SECONDS))
            if found is None:
                answer["error"] = "cannot allocate all claims"
            else:
                answer["allocations"] = found.results()
        except AllocationError as error:
            answer["error"] = str(error)
        if explained:
            answer["explanation"] = _as_json(self._explanation(node, found))
        return answer

    def _explanation(self, node: _Node, found: NodeSolution | None) -> Explanation:
        solution = None if found is None else found.solution
        try:
            return explain(self._plans, self._slices, node, self._state, self._features, solution)
        except AllocationError:  # no pool was looked at; the error explains it
            return Explanation((), ())


def _as_json(explanation: Explanation) -> Object:
    return {
        "pools": [{"pool": str(pool.pool), "verdict": pool.verdict} for pool in explanation.pools],
        "requests": [
            {
                "claim": request.claim,
                "request": request.request,
                "devices": [
                    {"device": str(device.device), "verdict": device.verdict} for device in request.devices
                ],
            }
            for request in explanation.requests
        ],
    }
