"""Shares informers between all that need the same collection."""

import asyncio

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock, Entropy


class InformerFactory:
    """Holds one informer per collection and selection, shared by all that need it."""

    def __init__(
        self, client: APIClient, clock: Clock, entropy: Entropy | None = None, *, trimmed: bool = False
    ) -> None:
        self._client = client
        self._trimmed = trimmed
        self._clock = clock
        self._entropy = entropy
        self._informers: dict[tuple[Ref, str, str, str], Informer] = {}
        self._followed: list[Informer] = []
        self._ending: dict[asyncio.Task[None], None] = {}

    def informer(
        self, ref: Ref, namespace: str = "", field_selector: str = "", label_selector: str = ""
    ) -> Informer:
        wanted = (ref, namespace, field_selector, label_selector)
        if wanted not in self._informers:
            self._informers[wanted] = self._new(*wanted)
        return self._informers[wanted]

    def _new(self, ref: Ref, *scope: str) -> Informer:
        return Informer(self._client, ref, self._clock, *scope, entropy=self._entropy, trimmed=self._trimmed)

    def follow(self, ref: Ref) -> Informer:
        """Starts an informer that is needed for a while.

        Nobody else gets it, and nothing waits until it has synced.
        """
        informer = self._new(ref)
        self._followed.append(informer)
        informer.start()
        return informer

    def unfollow(self, informer: Informer) -> None:
        """Ends an informer that `follow` began."""
        self._followed.remove(informer)
        ending = asyncio.create_task(informer.stop(), name=f"end of informer {informer.ref}")
        self._ending[ending] = None
        ending.add_done_callback(self._ending.pop)

    def existing(self, ref: Ref) -> Informer | None:
        """Returns the informer of a whole collection that somebody has asked for; None if nobody has."""
        return self._informers.get((ref, "", "", ""))

    @property
    def has_synced(self) -> bool:
        return all(informer.has_synced for informer in self._informers.values())

    @property
    def unserved(self) -> list[Ref]:
        """Lists the resources that the server does not have, cannot decode, or has no role for."""
        return [informer.ref for informer in self._informers.values() if informer.cannot_list]

    def start(self) -> None:
        """Starts the informers that are not started yet."""
        for informer in self._informers.values():
            informer.start()

    async def synced(self) -> None:
        await asyncio.gather(*(informer.synced() for informer in self._informers.values()))

    async def settled(self) -> None:
        """Returns when everything has been listed that the server has, by informers added meanwhile, too."""
        waited = 0
        while waited < len(self._informers):
            waited = len(self._informers)
            await asyncio.gather(*(informer.settled() for informer in [*self._informers.values()]))

    async def stop(self) -> None:
        informers = (*self._informers.values(), *self._followed)
        ending = [task for informer in informers for task in informer.cancel()]
        await asyncio.gather(*ending, *self._ending, return_exceptions=True)
