"""Identity that authentication finds and that authorization, admission and strategies read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ANONYMOUS = "system:anonymous"
AUTHENTICATED_GROUP = "system:authenticated"
UNAUTHENTICATED_GROUP = "system:unauthenticated"
MASTERS_GROUP = "system:masters"


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated (or anonymous) user, as upstream's `user.Info`."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def authenticated(groups: Sequence[str]) -> tuple[str, ...]:
    """Users that have one of the two groups already get no other."""
    known = AUTHENTICATED_GROUP in groups or UNAUTHENTICATED_GROUP in groups
    return tuple(groups) if known else (*groups, AUTHENTICATED_GROUP)


SERVER = User("system:apiserver", groups=(MASTERS_GROUP, AUTHENTICATED_GROUP))
