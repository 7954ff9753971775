"""Reports the faults of a write in the order, and as often, as the strategy lists its checks."""

import pytest
from rule_checks import context_of

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.field import FieldError, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.registry.generic.check_order import CREATE, UPDATE, Check, Checks
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext

CATALOGUE = catalogue_for(Version(36))


def fault(place: str) -> list[FieldError]:
    return [invalid(place, "x", "is wrong")]


class Faulty(Strategy):
    """Finds one fault with every check, and notes which checks were made."""

    def __init__(self, create: Checks = CREATE, update: Checks = UPDATE) -> None:
        self.create_checks, self.update_checks = create, update  # type: ignore[misc]
        self.made: list[str] = []

    def metadata_errors(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        self.made.append("metadata")
        return fault("metadata")

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return fault("rules")

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        self.made.append("rules")
        return fault("rules")

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        self.made.append("change")
        return fault("change")


def context(subresource: str = "") -> StrategyContext:
    resource = CATALOGUE.resource("", "v1", "services")
    assert resource is not None
    return context_of(CATALOGUE, resource)._replace(subresource=subresource)


# A service whose port has no number: what follows from the schema is wrong with it.
SERVICE = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1, "protocol": "X"}], "type": "Odd"}}


def changed(strategy: Strategy, subresource: str = "status") -> list[str]:
    found = strategy.check_change(SERVICE, SERVICE, context(subresource), fault("metadata change"))
    return [error.path for error in found]


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        (UPDATE, ["metadata change", "change"]),
        ((Check.METADATA, *UPDATE), ["metadata", "metadata change", "change"]),
        ((Check.CHANGE, Check.METADATA_CHANGE), ["change", "metadata change"]),
        (
            (Check.METADATA, Check.OWN_RULES, Check.METADATA, Check.OWN_RULES, Check.CHANGE),
            ["metadata", "rules", "metadata", "rules", "change"],
        ),
        ((), []),
    ],
)
def test_a_fault_is_reported_as_often_as_its_check_is_listed(checks: Checks, expected: list[str]) -> None:
    """Each check's faults stand where, and as often as, the strategy lists it."""
    assert changed(Faulty(update=checks)) == expected


def test_a_check_that_is_listed_twice_is_made_once() -> None:
    """What is told twice costs no second look."""
    strategy = Faulty(update=(Check.METADATA, Check.OWN_RULES, Check.METADATA, Check.OWN_RULES, Check.CHANGE))
    changed(strategy)
    assert strategy.made == ["metadata", "rules", "change"]


def test_a_new_object_is_checked_in_the_order_of_its_strategy() -> None:
    """A kind with rules of its own tells no structural faults, and may look at its rules first."""
    strategy = Faulty(create=(Check.OWN_RULES, Check.METADATA))
    found = strategy.check_new(SERVICE, context(), fault("metadata"))
    assert [error.path for error in found] == ["rules", "metadata"]


def test_checks_may_depend_on_the_version() -> None:
    """A claim is checked as a new one in updates up to 1.34, and not from 1.35 on."""
    from kubeskew.apiserver.registry.resource.resourceclaim.strategy import ClaimStrategy

    found = {}
    for minor in (34, 35):
        catalogue = catalogue_for(Version(minor))
        resource = catalogue.resource("resource.k8s.io", "v1", "resourceclaims")
        assert resource is not None
        found[minor] = Check.OWN_RULES in ClaimStrategy().update_checks_for(context_of(catalogue, resource))
    assert found == {34: True, 35: False}
