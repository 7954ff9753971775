"""The delays before a program that has ended by itself is started again."""

import pytest

from kubeskew.shim.supervision import RestartDelays


@pytest.mark.parametrize(
    ("ends", "delays"),
    [
        ([0], [0]),
        ([0, 5, 30, 80], [0, 10, 20, 40]),
        ([0, 1, 2, 3, 4, 5, 6, 7], [0, 10, 20, 40, 80, 160, 300, 300]),
        ([0, 5, 700], [0, 10, 0]),
    ],
)
def test_delays_grow_as_a_kubelets_do(ends, delays):
    """The first start comes at once, later ones after 10 s, 20 s, up to 5 minutes; a program that ran for
    more than 10 minutes begins again.
    """
    times = iter(ends)
    restarts = RestartDelays(lambda: next(times))

    assert [restarts.next("") for _ in ends] == delays


def test_each_process_has_delays_of_its_own():
    """A driver's process on one node does not delay that of another."""
    restarts = RestartDelays(lambda: 1.0)

    assert [restarts.next(name) for name in ("a", "b", "a", "b")] == [0, 0, 10, 10]
