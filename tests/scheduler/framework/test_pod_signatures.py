"""Nodes remember answers for pods that are alike."""

from types import SimpleNamespace

import pytest
from plugin_bench import Bench, pod

from kubeskew.scheduler.framework.filters import NodeFilter, Nominator
from kubeskew.scheduler.framework.interfaces import CycleState
from kubeskew.scheduler.framework.profile import PodSignatures, Profile, remembered
from kubeskew.scheduler.framework.status import SUCCESS, unschedulable
from kubeskew.scheduler.plugins.priority_sort import PrioritySort


class Colours:
    """Lets pods on nodes with less than two pods, and counts how often it is asked."""

    name = "Colours"

    def __init__(self):
        self.asked = []

    def filter_signature(self, state, pod):
        return pod.labels["colour"]

    def filter(self, state, pod, node):
        self.asked.append(f"{pod.name} {node.name}")
        return SUCCESS if len(node.pods) < 2 else unschedulable("full")

    def bind(self, state, pod, node):
        return SUCCESS


@pytest.fixture
def bench():
    bench = Bench()
    bench.node("a")
    return bench


def test_a_node_answers_pods_of_a_kind_once_until_it_changes(bench):
    """Pods with the sign of an earlier one are not looked at; a new pod on the node begins again."""
    colours = Colours()
    node_filter = NodeFilter(Profile([PrioritySort(), colours]), Nominator(), SimpleNamespace())
    node = bench.cache.node("a")

    def asks(name, colour):
        state, info = CycleState(), pod(name, labels={"colour": colour})
        return node_filter.run(node_filter.prepare(state, info), state, info, node).is_success

    assert [asks("p", "red"), asks("q", "red"), asks("r", "blue")] == [True, True, True]
    bench.running("a", "x")
    bench.running("a", "y")
    assert [asks("s", "red"), asks("t", "red")] == [False, False]
    assert colours.asked == ["p a", "r a", "s a"]


def test_answers_and_kinds_are_bounded(bench):
    """However many kinds of pods come, neither the table nor a node's memory grows without end."""
    kinds, node = PodSignatures(), bench.cache.node("a")

    for number in range(2500):
        assert remembered(node, kinds.of(number), lambda number=number: number) == number

    assert len(node.memo) <= 1000
    assert kinds.of(2499) is kinds.of(2499)
