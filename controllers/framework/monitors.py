"""Shares what the garbage collector watches with controllers that need all objects of any resource."""

from collections.abc import Iterator

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import Ref


class Monitors:
    """The informers of the garbage collector, by resource; each holds at least the objects' metadata.

    It is upstream's graph builder as others see it (pkg/controller/garbagecollector/graph_builder.go,
    GetMonitor). Without a garbage collector it stays empty.
    """

    def __init__(self) -> None:
        self._informers: dict[Ref, Informer] = {}

    def __contains__(self, ref: Ref) -> bool:
        return ref in self._informers

    def __iter__(self) -> Iterator[Ref]:
        return iter(self._informers)

    def add(self, ref: Ref, informer: Informer) -> None:
        self._informers[ref] = informer

    def remove(self, ref: Ref) -> None:
        self._informers.pop(ref, None)

    def get(self, ref: Ref) -> Informer | None:
        return self._informers.get(ref)
