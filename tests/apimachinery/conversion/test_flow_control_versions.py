"""Priority levels in the versions that call their shares otherwise."""

from kubeskew.apimachinery.conversion import convert
from kubeskew.apimachinery.conversion.renamed_fields import PRESERVE_ZERO
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind

GROUP = "flowcontrol.apiserver.k8s.io"


def level(version: str, **limited: int) -> Object:
    """A limited level."""
    obj: Object = {"apiVersion": f"{GROUP}/{version}", "kind": "PriorityLevelConfiguration"}
    return {**obj, "metadata": {"name": "l"}, "spec": {"type": "Limited", "limited": limited}}


def into(obj: Object, version: str) -> Object:
    return convert(obj, GroupVersionKind(GROUP, version, "PriorityLevelConfiguration"))


def test_shares_have_another_name_in_old_versions() -> None:
    """The field assuredConcurrencyShares of v1beta2 becomes nominalConcurrencyShares later, and back."""
    old, new = level("v1beta2", assuredConcurrencyShares=5), level("v1beta3", nominalConcurrencyShares=5)
    assert into(old, "v1beta3") == new
    assert into(new, "v1beta2") == old
    assert into(level("v1", nominalConcurrencyShares=5), "v1beta3") == new


def test_no_shares_are_noted_where_zero_would_be_defaulted() -> None:
    """v1beta3 carries an annotation for the zero of v1, which goes on the way back."""
    none = level("v1", nominalConcurrencyShares=0)
    beta = into(none, "v1beta3")
    assert beta["metadata"]["annotations"] == {PRESERVE_ZERO: ""}
    assert into(beta, "v1") == none
