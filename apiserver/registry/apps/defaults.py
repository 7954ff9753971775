"""Sets defaults that several kinds of apps share.

Source: pkg/apis/apps/v1/defaults.go, 1.36.
"""

from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    fill,
    fill_null,
    struct,
)

HISTORY = 10


def default_rolling_update(spec: Object, name: str, **values: Any) -> None:
    strategy = struct(spec, name)
    fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill_null(struct(strategy, "rollingUpdate"), **values)
