"""Classes that pods and claims name: of priority, of runtimes, of storage.

Source: pkg/registry/{scheduling/priorityclass,node/runtimeclass,storage/storageclass}/strategy.go, 1.36.
"""

from kubeskew.apimachinery.errors import GroupResource, Object
from kubeskew.apimachinery.field import FieldError
from kubeskew.apiserver.registry.strategies.checked import Checked, CheckedAsNew
from kubeskew.apiserver.registry.strategies.shared import Counted, Returned
from kubeskew.apiserver.registry.strategy import Strategy, StrategyContext
from kubeskew.apiserver.registry.validation import classes
from kubeskew.apiserver.registry.warnings import node_labels


class PriorityClassStrategy(Checked, Counted):
    """Its first generation is its last: nothing that counts may change."""

    generation_ignores = frozenset({"metadata", "description", "globalDefault"})

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(classes.priority_class_errors(obj))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(classes.priority_class_update_errors(new, old))


class RuntimeClassStrategy(CheckedAsNew):
    core_metadata = False
    allow_create_on_update = True
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(classes.runtime_class_errors(obj))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(classes.runtime_class_update_errors(new, old))


class StorageClassStrategy(CheckedAsNew, Returned):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(classes.storage_class_errors(obj))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(classes.storage_class_update_errors(new, old))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return list(node_labels.topology_warnings(obj.get("allowedTopologies") or [], "allowedTopologies"))


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource("scheduling.k8s.io", "priorityclasses"): PriorityClassStrategy,
    GroupResource("node.k8s.io", "runtimeclasses"): RuntimeClassStrategy,
    GroupResource("storage.k8s.io", "storageclasses"): StorageClassStrategy,
}
