"""The watch over the free space of the disk."""

import subprocess
import sys
from collections.abc import Mapping

from kubeskew.kubelet.containers.host import disk_guard, usage
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


def test_children_of_threads_are_counted():
    """The output of a process counts also if another thread than the first one has forked it."""
    script = (
        "import os, subprocess, threading\n"
        "child = lambda: subprocess.run(['/bin/sh', '-c', 'echo ready; read word'])\n"
        "thread = threading.Thread(target=child); thread.start(); thread.join()"
    )
    command = [sys.executable, "-c", script]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        (child,) = usage.below(process.pid)
        both, own = disk_guard.written_by(process.pid), disk_guard.written_by(child)
        found = usage.of_tree(process.pid)
        process.stdin.close()
    assert both.calls >= own.calls >= len("ready\n")
    assert found is not None
    assert found.processes == 2
