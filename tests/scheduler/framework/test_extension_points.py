"""The methods by which a plugin says where it acts."""

# Protocols are given as types, which mypy takes for instantiation.
# mypy: disable-error-code="type-abstract"

import pytest

from kubeskew.scheduler.framework import interfaces
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SUCCESS, Status


class Gate:
    """A plugin that acts before pods are queued."""

    name = "Gate"

    def pre_enqueue(self, pod: PodInfo) -> Status:
        return SUCCESS


@pytest.mark.parametrize("point", [interfaces.PreEnqueue, interfaces.Filter, interfaces.Bind])
def test_a_plugin_acts_where_it_has_the_methods(point: type):
    """`acts` decides as `isinstance` does, of a plugin and of something without a name."""
    for plugin in (Gate(), object()):
        assert interfaces.acts(plugin, point) is isinstance(plugin, point)
