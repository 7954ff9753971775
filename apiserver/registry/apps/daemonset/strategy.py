"""Decides how DaemonSets are written.

Source: pkg/registry/apps/daemonset/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import SpecKeptStatus
from kubeskew.apiserver.registry.generic.check_order import Check, Checks
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.workloads import status as workload_status
from kubeskew.apiserver.registry.shared.workloads import validation as workload_validation
from kubeskew.apiserver.registry.shared.workloads.strategy import CHECKED_TWICE, SelectingStrategy


class DaemonSetStatus(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(workload_status.daemon_set_errors(new.get("status") or {}, old.get("status") or {}))


class DaemonSetStrategy(SelectingStrategy):
    """Daemon sets: an annotation counts templates, since the field for that is gone."""

    status = DaemonSetStatus
    update_checks = (Check.METADATA_CHANGE, Check.CHANGE, Check.STRUCTURE, Check.OWN_RULES)
    spec_errors = staticmethod(workload_validation.daemon_set_errors)
    blank = {"metadata": {"annotations": {"deprecated.daemonset.template.generation": "0"}}}

    def update_checks_for(self, ctx: StrategyContext) -> Checks:
        return CHECKED_TWICE if ctx.features.workloads.daemon_sets_twice else self.update_checks

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        _set_template_generation(obj, 1)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        text = (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "")
        number = int(text) if text.isdigit() else 0
        changed = new["spec"].get("template") != old["spec"].get("template")
        _set_template_generation(new, number + changed)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return self.template_warnings(obj, ctx)


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _set_template_generation(obj: Object, number: int) -> None:
    metadata = obj["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _TEMPLATE_GENERATION: str(number)}
