"""The clusters of a test session; each test gets one that looks new.

A cluster is shared by the tests that ask for the same one, each in a namespace of its own. If a test has
changed more than its namespace, the cluster is rewound before the next test.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.cluster import config
from kubeskew.cluster.cluster import Cluster
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.state import StateDir
from kubeskew.conformance.evidence.rows import Row
from kubeskew.testing.running_cluster import RunningCluster, Surroundings

Setup = Callable[[RunningCluster], None]

_MOST_RUNNING = 2  # a cluster of one node has about 200 MB
_LONGEST_NAME = 40
_GONE_SECONDS = 10.0  # that the deletion of a namespace may take
_ACCOUNTS = "system:serviceaccount:"
_OWN_ACCOUNTS = "system:serviceaccount:kube-system:"


@dataclass(slots=True)
class _Member:
    """The cluster is in the state of revision `base`, unless `changed`."""

    directory: Path
    base: int = 0
    changed: bool = False
    runs: bool = True


class Pool:
    """Clusters of a pool belong to one process that runs tests, and lie below the directory `root`."""

    def __init__(self, root: Path, surroundings: Surroundings) -> None:
        self._root = root
        self._around = surroundings
        self._members: dict[str, _Member] = {}  # the one that was used last comes last
        self._tests = 0
        self._made = 0

    def acquire(self, cluster: Mapping[str, Any], setup: Setup, test: str) -> RunningCluster:
        """`cluster` is a cluster file's value; the cluster gets a namespace for the test."""
        key = json.dumps([cluster, id(setup)], sort_keys=True)
        member = self._members.pop(key, None)
        if member is not None and not self._restored(member):
            member = None
        if member is None:
            member = self._started(cluster, setup)
        self._members[key] = member
        self._tests += 1
        return self._with_namespace(member, f"{_plain(test)}-{self._tests}")

    def release(self, running: RunningCluster) -> None:
        member = next(each for each in self._members.values() if each.directory == running.state_dir)
        try:
            member.changed = _reaches_out(running) or not _vanished(running)
        except (StatusError, StorageError, ClusterError, *CONNECTION_ERRORS):
            member.changed = True
        finally:
            running.close()

    def close(self) -> None:
        """Logs of the clusters stay."""
        while self._members:
            _, member = self._members.popitem()
            self._stop(member)

    def _started(self, cluster: Mapping[str, Any], setup: Setup) -> _Member:
        self._make_room()
        self._made += 1
        member = _Member(self._root / f"cluster-{self._made}")
        spec = config.parse(dict(cluster), "the cluster of the test")
        try:
            self._around.loop.run(self._cluster(member).up(spec))
            running = RunningCluster(member.directory, self._around, "default")
            try:
                setup(running)
                member.base = running.revision
            finally:
                running.close()
        except BaseException:
            self._stop(member)
            raise
        return member

    def _restored(self, member: _Member) -> bool:
        """False if the cluster cannot be rewound to its state before any test."""
        if member.changed or not member.runs:
            try:
                if not member.runs:
                    self._make_room()
                if member.changed:
                    self._around.loop.run(self._cluster(member).rewind(member.base))
                self._around.loop.run(self._cluster(member).up(None))
            except (ClusterError, UserError):  # also of a revision that a test has rewound away
                self._stop(member)
                return False
        member.changed, member.runs = False, True
        return True

    def _make_room(self) -> None:
        """Stops the clusters that have not been used for longest, so that there is room for one more."""
        running = [member for member in self._members.values() if member.runs]
        for member in running[: len(running) - _MOST_RUNNING + 1]:
            self._stop(member)

    def _stop(self, member: _Member) -> None:
        member.runs = False
        with suppress(Exception):  # what could not be started, or has been broken by a test
            self._around.loop.run(self._cluster(member).down())

    def _cluster(self, member: _Member) -> Cluster:
        return Cluster(StateDir(member.directory), self._around.platform, lambda _: None)

    def _with_namespace(self, member: _Member, name: str) -> RunningCluster:
        running = RunningCluster(member.directory, self._around, name)
        try:
            running.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            running.eventually(lambda: running.client.get("v1", "ServiceAccount", "default"))
            running.began = running.revision
        except BaseException:
            member.changed = True
            running.close()
            raise
        return running


def _plain(test: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", test.lower())[:_LONGEST_NAME].strip("-") or "test"


def _reaches_out(running: RunningCluster) -> bool:
    return any(_is_foreign(row, running.namespace) for row in running.events())


def _is_foreign(row: Row, namespace: str) -> bool:
    resource, _, place = row["object"].partition(" ")
    if resource == "component":
        return True
    user = row["user"]
    if user.startswith("system:") and (not user.startswith(_ACCOUNTS) or user.startswith(_OWN_ACCOUNTS)):
        return False  # the control plane, which only follows what users want
    first: str = place.partition("/")[0]
    return first != namespace


def _vanished(running: RunningCluster) -> bool:
    """Deletes the test's namespace; False if it still exists after _GONE_SECONDS."""
    running.client.delete("v1", "Namespace", running.namespace)

    def names() -> list[str]:
        return [each["metadata"]["name"] for each in running.client.list("v1", "Namespace")]

    try:
        return running.eventually(lambda: running.namespace not in names(), _GONE_SECONDS)
    except AssertionError:
        return False
