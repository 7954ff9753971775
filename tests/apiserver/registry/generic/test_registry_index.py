"""The registrations of the registry's rooms: what they name is there, and is found."""

from importlib import import_module
from typing import Any

import pytest

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.errors import GroupKind, GroupResource
from kubeskew.apimachinery.versions import SUPPORTED
from kubeskew.apiserver.registry import index
from kubeskew.apiserver.registry.defaulting import defaulter_of
from kubeskew.apiserver.registry.generic.strategy import Strategy, strategy_of
from kubeskew.apiserver.registry.tables.printers import cells_of

GROUP_PACKAGES = sorted(index.GROUP_PACKAGES.items())


def registered(room: str, table: str) -> dict[str, str]:
    names: dict[str, str] = {}
    for folder in (room, *index.EARLIER_GENERATIONS.get(room, ())):
        names |= getattr(import_module(f"{index.__package__}.{folder}"), table, {})
    return names


@pytest.mark.parametrize(("group", "room"), GROUP_PACKAGES)
def test_every_registration_names_something_that_is_there(group: str, room: str) -> None:
    """Strategies are classes of strategies, cells and defaults functions."""
    for resource in registered(room, "STRATEGIES"):
        strategy = strategy_of(GroupResource(group, resource))
        assert strategy is not Strategy
        assert issubclass(strategy, Strategy)
    for kind in registered(room, "CELLS"):
        assert callable(cells_of(GroupKind(group, kind)))


def test_every_default_is_of_a_type_that_some_release_has() -> None:
    """A name with a slip in it would never be found."""
    types: set[str] = set()
    for version in SUPPORTED:
        types |= set(catalogue_for(version).definitions())
    unknown: list[Any] = []
    for _, room in GROUP_PACKAGES:
        for name in registered(room, "DEFAULTS"):
            ends = f".{room}.{name}"
            found = [kind for kind in types if kind.endswith(ends)]
            if not found and room != "scheduling" and "v2beta2" not in name:
                unknown.append((room, name))
            assert all(callable(defaulter_of(one)) for one in found)
    assert unknown == []


def test_a_kind_with_nothing_particular_has_the_general_strategy() -> None:
    """A kind or group that the index does not know has the general strategy, without an error."""
    assert strategy_of(GroupResource("", "things")) is Strategy
    assert strategy_of(GroupResource("example.com", "things")) is Strategy
    assert cells_of(GroupKind("example.com", "Thing")) is None
    assert defaulter_of("com.example.v1.Thing") is None
