"""Remembers the claims that the controller has created, until its informer is known to have them.

Behaviour of the mutation cache of k8s.io/kubernetes/pkg/controller/resourceclaim since 1.28 (117351;
cache.NewIntegerResourceVersionMutationCache of client-go, with added objects): a claim stays for an hour, or
until so many others were created (a hundred, since 140227 5000). It is taken out when somebody looks for its
owner's claims while the informer has it, and not when it is deleted.
"""

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Key, key_of
from kubeskew.controllers.resourceclaim.claims import owner_keys

OWNER = "owner"  # the informer's index of claims by their owners

_SECONDS = 3600.0
_FEW, _MANY = 100, 5000


class CreatedClaims:
    """The claims of an informer, and those that were created and that it may not have yet."""

    def __init__(self, claims: Informer, clock: Clock, *, few: bool) -> None:
        self._claims = claims
        self._clock = clock
        self._limit = _FEW if few else _MANY
        self._created: dict[Key, tuple[float, Object]] = {}  # oldest first: until when each is kept
        claims.add_index(OWNER, owner_keys)

    def add(self, claim: Object) -> None:
        """Remembers a claim as the server has answered its creation."""
        key = key_of(claim)
        self._created.pop(key, None)
        self._created[key] = self._clock.monotonic() + _SECONDS, claim
        if len(self._created) > self._limit:
            del self._created[next(iter(self._created))]

    def of_owner(self, owner: str) -> list[Object]:
        """Returns the claims of an owner with this key: those that the informer has, then others that were
        created."""
        found = {key_of(claim): claim for claim in self._claims.by_index(OWNER, owner)}
        now = self._clock.monotonic()
        for key in [key for key, (until, _) in self._created.items() if until < now or key in found]:
            del self._created[key]
        others = [claim for _, claim in self._created.values() if owner in owner_keys(claim)]
        return [*found.values(), *others]
