"""Which module has the strategies of which kinds."""

import pkgutil
from importlib import import_module

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apiserver.registry import strategies
from kubeskew.apiserver.registry.strategy import Strategy


def test_every_strategy_is_found_where_the_table_says() -> None:
    """Each module is named for exactly the groups of its kinds, and no kind has two strategies."""
    found: dict[GroupResource, str] = {}
    groups: dict[str, set[str]] = {}
    for module in pkgutil.iter_modules(strategies.__path__):
        table = getattr(import_module(f"{strategies.__name__}.{module.name}"), "STRATEGIES", {})
        for kind, strategy in table.items():
            assert kind not in found, f"{kind} is in {found[kind]} and {module.name}"
            assert strategies.strategy_of(kind) is strategy
            found[kind] = module.name
            groups.setdefault(kind.group, set()).add(module.name)

    assert {group: set(modules) for group, modules in strategies.MODULES.items()} == groups


def test_a_kind_with_nothing_particular_has_the_general_strategy() -> None:
    """Neither an unknown kind nor an unknown group is an error."""
    assert strategies.strategy_of(GroupResource("", "things")) is Strategy
    assert strategies.strategy_of(GroupResource("example.com", "things")) is Strategy
