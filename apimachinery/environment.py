"""Holds what surrounds a component: everything that it is given instead of looking for it."""

from dataclasses import dataclass

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version


@dataclass(frozen=True, slots=True)
class Environment:
    """Holds the surroundings of a component: its version, its gates, its clock and its randomness."""

    version: Version
    gates: FeatureGates
    clock: Clock
    entropy: Entropy
