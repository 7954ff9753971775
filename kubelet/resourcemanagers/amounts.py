"""The resources of a node as its managers see them."""

from collections.abc import Mapping
from typing import NamedTuple


class NodeAmounts(NamedTuple):
    """Holds what a node has, and what of it is not for pods, as quantities."""

    capacity: Mapping[str, str]
    reserved: Mapping[str, str]
