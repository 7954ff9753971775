"""Sets the defaults of ResourceQuota objects.

Source: pkg/apis/core/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
)
from kubeskew.apiserver.registry.shared.podtemplate.defaults import round_up


def resource_quota(obj: Object, _: DefaultingContext) -> None:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    for amounts in (spec.get("hard"), status.get("hard"), status.get("used")):
        for name, text in (amounts or {}).items():
            if amounts is not None:
                amounts[name] = round_up(text)
