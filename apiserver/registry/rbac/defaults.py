"""Sets the defaults of RoleBinding objects.

Source: pkg/apis/rbac/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    each,
    fill,
    struct,
)

RBAC = "rbac.authorization.k8s.io"


def binding(obj: Object, _: DefaultingContext) -> None:
    fill(struct(obj, "roleRef"), apiGroup=RBAC)
    for subject in each(obj, "subjects"):
        if subject.get("kind") in {"User", "Group"}:
            fill(subject, apiGroup=RBAC)
