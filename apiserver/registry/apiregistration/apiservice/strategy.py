"""Holds the strategies of APIServices.

Source: k8s.io/kube-aggregator/pkg/registry/apiservice/strategy.go, 1.36.
"""

import copy
from typing import ClassVar

from kubeskew.apimachinery import names
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.apiregistration.apiservice.validation import (
    api_service_errors,
    status_errors,
)
from kubeskew.apiserver.registry.generic.builtin import BuiltIn, SpecKeptStatus
from kubeskew.apiserver.registry.generic.check_order import UPDATE, Check
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext


class APIServiceStatus(SpecKeptStatus):
    """Writes of the status."""

    kept_metadata = ("labels", "annotations", "finalizers", "ownerReferences")
    core_metadata = False

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(status_errors(new))


class APIServiceStrategy(BuiltIn):
    """APIServices: a local one is available from the start."""

    allow_unconditional_update = False
    update_checks = (Check.METADATA, *UPDATE)
    core_metadata = False
    status: ClassVar[type[Strategy]] = APIServiceStatus

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        if (obj.get("spec") or {}).get("service") is None:
            condition = {
                "type": "Available",
                "status": "True",
                "lastTransitionTime": timestamp(ctx.now),
                "reason": "Local",
                "message": "Local APIServices are always available",
            }
            obj["status"] = {"conditions": [condition]}

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        new["status"] = copy.deepcopy(old.get("status") or {})

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.path_segment(name, prefix)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(api_service_errors(obj))
