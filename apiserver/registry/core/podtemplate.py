"""PodTemplate: defaults, strategy and cells of tables.

Sources: pkg/apis/core/v1/defaults.go, pkg/registry/core/podtemplate/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting import DefaultingContext
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.pod_options import PodOptions, template_options
from kubeskew.apiserver.registry.shared.podtemplate import warnings as pod_warnings
from kubeskew.apiserver.registry.shared.podtemplate.defaults import template
from kubeskew.apiserver.registry.shared.podtemplate.validation import template_errors
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, at, containers, labels


def default_pod_template(obj: Object, ctx: DefaultingContext) -> None:
    template(obj, ctx)


class PodTemplateStrategy(ReturnsDeletedObject):
    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._template_errors(obj, template_options(ctx))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._template_errors(new, template_options(ctx, new, old))

    def _template_errors(self, obj: Object, options: PodOptions) -> list[FieldError]:
        return template_errors(obj.get("template") or {}, "template", options)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return pod_warnings.template_warnings(obj.get("template") or {}, "template", ctx.features.pods)

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        changed = new["metadata"].get("generation") != old["metadata"].get("generation")
        return self.warnings(new, ctx) if changed else []


def pod_template_cells(subject: Subject) -> Cells:
    template = subject.at("template")
    return {**containers(template), "Pod Labels": labels(at(template, "metadata", "labels"))}
