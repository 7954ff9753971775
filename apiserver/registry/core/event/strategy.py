"""Holds the strategy of events, of the core group and of events.k8s.io: one resource with the core names.

Source: k8s.io/kubernetes/pkg/registry/core/event/strategy.go, 1.36.
"""

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.registry.core.event import validation as event_validation
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext

_NEWER = "events.k8s.io"
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


class EventStrategy(HandwrittenBuiltIn):
    """Events: the newer group is strict and checks metadata; the older one checks little."""

    allow_create_on_update = True
    field_labels = (
        *(f"involvedObject.{name}" for name in _INVOLVED),
        "reason",
        "reportingComponent",
        "source",
        "type",
        *(f"regarding.{name}" for name in _INVOLVED),
        "reportingController",
    )

    def checks_metadata(self, ctx: StrategyContext) -> bool:
        return ctx.request_group == _NEWER

    def metadata_errors(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        if not self.checks_metadata(ctx):
            return []
        check = names.dns1123_subdomain
        return object_meta.validate_object_meta(obj["metadata"], ctx.resource.namespaced, check)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self.check_new(obj, ctx, [])

    def check_new(self, obj: Object, ctx: StrategyContext, metadata: list[FieldError]) -> list[FieldError]:
        found = list(event_validation.event_errors(obj, reporting=_reporting(ctx)))
        if ctx.request_group == _NEWER:
            found += [*metadata, *event_validation.new_event_errors(obj)]
        return found

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        found = list(event_validation.event_errors(new, reporting=_reporting(ctx)))
        if ctx.request_group == _NEWER:
            found += [*metadata, *event_validation.update_errors(new, old)]
        return found

    def labels_in(self, group: str, features: Features) -> tuple[str, ...]:
        own, others = ("regarding.", "reportingController"), ("involvedObject.", "reportingComponent")
        refused = others if group == _NEWER else own
        return tuple(label for label in self.field_labels if not label.startswith(refused))

    def fields(self, obj: Object) -> dict[str, str]:
        found = super().fields(obj)
        controller = obj.get("reportingComponent") or ""
        found["source"] = (obj.get("source") or {}).get("component") or controller
        found["reportingComponent"] = found["reportingController"] = controller
        for name in _INVOLVED:
            found[f"regarding.{name}"] = found[f"involvedObject.{name}"]
        return found


def _reporting(ctx: StrategyContext) -> str:
    return "reportingController" if ctx.request_group == _NEWER else "reportingComponent"
