"""The generations of DRA by release. Nothing else in the kubelet names the rooms of those before today's.

To delete a room, delete its folder, its function and its entry here, and its tests.
"""

from collections.abc import Callable

from kubeskew.apimachinery.features import FeatureTable, by_release, choose, preview
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.kubelet.dra.features import DRAFeatures
from kubeskew.kubelet.dra.generation import Generation
from kubeskew.kubelet.dra.structured import StructuredGeneration


def structured(gates: FeatureGates) -> Generation:
    return StructuredGeneration(DRAFeatures.of(gates))


def classic(gates: FeatureGates) -> Generation:
    from kubeskew.kubelet.dra.classic.features import ClassicFeatures
    from kubeskew.kubelet.dra.classic.generation import ClassicGeneration

    return ClassicGeneration(DRAFeatures.of(gates), ClassicFeatures.of(gates))


def drafted(gates: FeatureGates) -> Generation:
    from kubeskew.kubelet.dra.classic.checkpoint import FIRST_FORM, ClassicCodec
    from kubeskew.kubelet.dra.drafted.generation import DraftedGeneration

    # The draft has no checkpoint; that it is 1.27's is a guess.
    return DraftedGeneration(DRAFeatures.of(gates), ClassicCodec(FIRST_FORM))


class DRAGenerations(FeatureTable):
    make: Callable[[FeatureGates], Generation] = choose(
        preview("kep3063"), drafted, by_release({0: classic, 31: structured})
    )


def generation_of(gates: FeatureGates) -> Generation:
    return DRAGenerations.of(gates).make(gates)
