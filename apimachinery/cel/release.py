"""The part of a release of Kubernetes that its expressions depend on."""

from typing import NamedTuple


class Release(NamedTuple):
    """A release's minor, and its bugs that change the results of expressions.

    `misses_inner_networks`: a network contains another one only if both begin at the same address (130450).
    """

    minor: int
    misses_inner_networks: bool = False
