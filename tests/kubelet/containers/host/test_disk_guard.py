"""The watch over the free space of the disk."""

from collections.abc import Mapping

from kubeskew.kubelet.containers.host.disk_guard import DiskGuard, Written


def killed_by(*looks: tuple[int, Mapping[str, Written]]) -> list[str]:
    killed: list[str] = []
    state = [looks[0]]
    guard = DiskGuard(lambda: state[0][0], lambda: state[0][1], killed.append)
    for look in looks:
        state[0] = look
        guard.look()
    return killed


def test_the_one_that_writes_most_is_killed():
    """While the space is short, who has written most since the last look is killed."""
    before = {"a": Written(1000, 9000), "b": Written(10, 10)}
    after = {"a": Written(1001, 9001), "b": Written(500, 500), "c": Written(300, 9000)}
    assert killed_by((0, before), (0, after)) == ["b"]
    assert killed_by((0, before), (0, before)) == []
    assert killed_by((1, before), (0, after)) == []
    assert killed_by((0, before), (1, before), (0, after)) == []
    assert killed_by((0, before), (0, {**before, "a": Written(1000, 9500)})) == ["a"]
    assert killed_by((0, {}), (0, {})) == []


def test_looks_come_sooner_as_space_runs_out():
    """The next look comes before the space that is left can be written."""
    free = iter((1 << 40, 1 << 28, 1 << 20))
    guard = DiskGuard(lambda: next(free), dict, lambda _name: None)
    assert [guard.look() for _ in range(3)] == [0.25, 0.125, 0.01]
