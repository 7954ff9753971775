"""Keeps what a driver offers of partitionable devices while it makes no partitions.

A driver that stops making partitions (switch `prePartitioned`) offers those that there are then. They are as
they are until it makes partitions again: which pods use them later, and whether the driver starts anew,
changes nothing, as a GPU keeps its MIG instances.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import orjson

from kubeskew.kubelet.files import StateFiles


class MadePartitions:
    """The devices that there are on one node, by pool; none while the driver makes partitions.

    The record, `{pool: [device, …]}`, outlives the driver's process.
    """

    def __init__(self, record: Path, files: StateFiles) -> None:
        self._record = record
        self._files = files
        self._made: dict[str, list[str]] = orjson.loads(files.read(record) or b"{}")

    def all(self) -> Iterator[tuple[str, str]]:
        """Yields the pool and name of each device."""
        for pool, devices in self._made.items():
            for device in devices:
                yield pool, device

    def keep(self, devices: Mapping[str, Sequence[str]]) -> None:
        """Keeps these names of devices, by pool, instead of those that were kept; without any, none."""
        made = {pool: [*names] for pool, names in devices.items()}
        if made == self._made:
            return
        self._made = made
        if made:
            self._files.write(self._record, orjson.dumps(made, option=orjson.OPT_INDENT_2))
        else:
            self._files.remove(self._record)
