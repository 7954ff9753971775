"""Making two runs comparable: what differs from run to run whatever happens is taken out of objects."""

import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any

from kubeskew.conformance.evidence.log import Write

# Fields that say when, where or which copy; none says what happened.
_VOLATILE = {
    *("uid", "resourceVersion", "managedFields", "generation", "observedGeneration", "selfLink"),
    *("containerID", "imageID", "podIP", "podIPs", "hostIP", "hostIPs", "addresses", "kubeletEndpoint"),
    *("clusterIP", "clusterIPs", "nodePort", "systemUUID", "bootID", "machineID"),
}
_TIMES = re.compile(r"(Time|Timestamp|At)$")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_PEM = re.compile(r"-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----", re.DOTALL)
_TOKEN_VOLUME = re.compile(r"(?<=kube-api-access-)[a-z0-9]{5}\b")  # admission draws it
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_CHANCE = ((_PEM, "<PEM>"), (_UUID, "<uid>"), (_MOMENT, "<time>"), (_TOKEN_VOLUME, "#"))
_KEYS = ("name", "type", "containerName", "device", "key", "uid")  # what tells items of a list apart

Fact = tuple[str, str]  # path, value


class GeneratedNames:
    """Generated names, by what they would be in every run: the prefix, and which of its objects it is."""

    def __init__(self) -> None:
        self._canonical: dict[str, str] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._free: dict[tuple[str, str], list[int]] = {}
        self._pattern: re.Pattern[str] | None = None
        self._known: dict[str, str] = {}  # texts with names replaced, until another name is learnt

    def learn(self, write: Write) -> None:
        prefix = write.value["metadata"].get("generateName")
        if not prefix or write.name in self._canonical:
            return
        prefix = self(prefix)
        self._canonical[write.name] = f"{prefix}#{self._number((write.resource, prefix))}"
        self._pattern = None

    def _number(self, kind: tuple[str, str]) -> int:
        if self._free.get(kind):
            return self._free[kind].pop(0)
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return self._counts[kind]

    def release(self, write: Write) -> None:
        """The object is gone, and whoever publishes it anew gets its name: it is the same thing again."""
        prefix, _, number = self._canonical.get(write.name, "").rpartition("#")
        if prefix:
            self._free.setdefault((write.resource, prefix), []).append(int(number))

    def __call__(self, text: str) -> str:
        known = self._known.get(text)
        if known is not None and self._pattern is not None:
            return known
        if self._pattern is None:
            names = sorted(self._canonical, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, names)) or r"(?!)")
            self._known.clear()
        known = self._pattern.sub(lambda match: self._canonical[match[0]], text)
        for pattern, what in _CHANCE:
            known = pattern.sub(what, known)
        self._known[text] = known
        return known


def facts(value: Mapping[str, Any], names: GeneratedNames) -> list[Fact]:
    """Returns the leaves of an object: what another run of the same kind would have too."""
    found: list[Fact] = []
    _add_leaves("", value, names, found)
    return found


def _add_leaves(path: str, value: Any, names: GeneratedNames, found: list[Fact]) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            if not _is_volatile(name):
                known = names(name)
                _add_leaves(f"{path}.{known}" if path else known, item, names, found)
    elif isinstance(value, list):
        for item in value:
            _add_leaves(f"{path}[{_label(item, names)}]", item, names, found)
    else:
        found.append((path, names(str(value))))


@lru_cache(maxsize=1 << 14)
def _is_volatile(name: str) -> bool:
    return name in _VOLATILE or _TIMES.search(name) is not None


def _label(item: Any, names: GeneratedNames) -> str:
    """Returns the name of an item; never its position, which others that come before it change."""
    if not isinstance(item, dict):
        return ""
    for key in _KEYS:
        if isinstance(item.get(key), str):
            return f"{key}={names(item[key])}"
    return sha256(repr(sorted(facts(item, names))).encode()).hexdigest()[:6]
