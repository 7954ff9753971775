"""The differences between the releases of classic drivers' library on a node, 0.26 to 0.30."""

from kubeskew.apimachinery.features import FeatureTable, by_release, choose, preview
from kubeskew.kubelet.protocols import dra_classic
from kubeskew.kubelet.protocols.dra_classic import ClassicService


class ClassicPluginLibrary(FeatureTable):
    # The newest of them may publish resources through the kubelet.
    services: tuple[ClassicService, ...] = by_release(
        {
            0: (dra_classic.V1ALPHA1,),
            27: (dra_classic.V1ALPHA2,),
            28: choose(
                preview("kep4381"),
                (dra_classic.V1ALPHA2, dra_classic.V1ALPHA3_OF_1_30),
                (dra_classic.V1ALPHA2, dra_classic.V1ALPHA3),
            ),
            30: (dra_classic.V1ALPHA2, dra_classic.V1ALPHA3_OF_1_30),
        }
    )
