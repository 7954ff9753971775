"""The interface of evaluators, and the one that only counts objects.

Source: k8s.io/apiserver/pkg/quota/v1/interfaces.go and generic/evaluator.go, 1.36.
"""

from collections.abc import Collection, Iterable, Sequence

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quota.amounts import ONE, Amounts
from kubeskew.apimachinery.quota.names import object_count

CREATE, UPDATE = "CREATE", "UPDATE"


class Evaluator:
    """Measures one resource; the defaults are those of objects that are only counted.

    `resource` is the resource by its storage name, `names` are what quotas call it.
    """

    def __init__(self, resource: GroupResource, *aliases: str) -> None:
        self.resource = resource
        self.names = (object_count(resource), *aliases)

    def handles(self, operation: str, subresource: str, new: Object, old: Object | None) -> bool:
        """Returns whether such a write may change what is used."""
        return not subresource and operation == CREATE

    def matching(self, names: Iterable[str]) -> list[str]:
        """Returns the resources among `names` that this evaluator measures."""
        return [name for name in names if name in self.names]

    def missing(self, required: Collection[str], obj: Object) -> str:
        """Returns an error's text if a quota requires fields that the object lacks, else empty."""
        return ""

    def in_scope(self, selector: Object, obj: Object) -> bool:
        """Returns whether the object is in a scope; raises SelectorError.

        Resources that are only counted have no scopes.
        """
        return False

    def usage(self, obj: Object) -> Amounts:
        """Measures the object's usage, by a quota's resources."""
        return dict.fromkeys(self.names, ONE)

    def freed(self, old: Object, new: Object) -> bool:
        """Returns whether a change of a stored object may have lowered its usage (or raised it without a
        charge)."""
        return False

    # --- shared by all -------------------------------------------------------------------------------------

    def matches(self, quota: Object, obj: Object) -> bool:
        """Returns whether the quota limits what this evaluator measures, and the object is in its scopes."""
        hard = (quota.get("status") or {}).get("hard") or {}
        if not self.matching(hard):
            return False
        return self.in_all(scope_selectors(quota["spec"]), obj)

    def in_all(self, selectors: Sequence[Object], obj: Object) -> bool:
        return all(self.in_scope(selector, obj) for selector in selectors)


def scope_selectors(spec: Object) -> list[Object]:
    """Returns the scopes of a quota's spec in one form: scopeName, operator, values."""
    selectors: list[Object] = [
        {"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()
    ]
    selectors += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return selectors
