"""DaemonSet: defaults, strategy and cells of tables.

Sources: pkg/apis/apps/v1/defaults.go, pkg/registry/apps/daemonset/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import SpecKeptStatus
from kubeskew.apiserver.registry.generic.strategy import Check, Checks, StrategyContext
from kubeskew.apiserver.registry.shared import workloads
from kubeskew.apiserver.registry.shared.podtemplate.defaults import template
from kubeskew.apiserver.registry.shared.workloads import (
    CHECKED_TWICE,
    HISTORY,
    SelectingStrategy,
    default_rolling_update,
)
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, labels, template_cells

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def default_daemon_set(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(spec, revisionHistoryLimit=HISTORY)
    default_rolling_update(spec, "updateStrategy", maxUnavailable=1, maxSurge=0)
    template(spec, ctx)
    # No default upstream, but what its conversion makes of a field that v1 does not have.
    fill(struct(struct(obj, "metadata"), "annotations"), **{TEMPLATE_GENERATION: "0"})


class DaemonSetStatus(SpecKeptStatus):
    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        """The count of templates is part of the internal spec, which stays."""
        super().prepare_for_update(new, old, ctx)
        _set_template_generation(new, _template_generation(old))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(workloads.daemon_set_status_errors(new.get("status") or {}, old.get("status") or {}))


class DaemonSetStrategy(SelectingStrategy):
    """Templates are counted in an annotation, since the field for that is gone."""

    status = DaemonSetStatus
    update_checks = (Check.METADATA_CHANGE, Check.CHANGE, Check.STRUCTURE, Check.OWN_RULES)
    spec_errors = staticmethod(workloads.daemon_set_errors)
    blank = {"metadata": {"annotations": {"deprecated.daemonset.template.generation": "0"}}}

    def update_checks_for(self, ctx: StrategyContext) -> Checks:
        return CHECKED_TWICE if ctx.features.workloads.daemon_sets_twice else self.update_checks

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        _set_template_generation(obj, 1)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        changed = new["spec"].get("template") != old["spec"].get("template")
        _set_template_generation(new, _template_generation(old) + changed)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return self.template_warnings(obj, ctx)


def _template_generation(obj: Object) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "")
    return int(text) if text.isdigit() else 0


def _set_template_generation(obj: Object, number: int) -> None:
    metadata = obj["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), TEMPLATE_GENERATION: str(number)}


def daemon_set_cells(subject: Subject) -> Cells:
    return {
        "Desired": subject.number("status", "desiredNumberScheduled"),
        "Current": subject.number("status", "currentNumberScheduled"),
        "Ready": subject.number("status", "numberReady"),
        "Up-to-date": subject.number("status", "updatedNumberScheduled"),
        "Available": subject.number("status", "numberAvailable"),
        "Node Selector": labels(subject.at("spec", "template", "spec", "nodeSelector")),
        **template_cells(subject),
    }
