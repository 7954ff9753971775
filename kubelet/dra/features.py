"""The differences between releases in DRA on a node: calls to drivers, checkpoint, error texts.

Gates and bugs that change preparing are in kubelet/features.py.
"""

from kubeskew.apimachinery.features import FeatureTable, bug, by_release, made, since
from kubeskew.kubelet.dra import grpc_versions
from kubeskew.kubelet.dra.checkpoint import Codec, ModernCodec
from kubeskew.kubelet.dra.grpc_versions import HealthFeatures, ServiceFeatures
from kubeskew.kubelet.dra.texts import SINCE_34, SINCE_37, UNTIL_33, ErrorTexts

_UNSUPPORTED = "invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}: {error}"


class DRAFeatures(FeatureTable):
    """Forms of calls, checkpoint and errors.

    Before 1.31 generations have a codec and a choice of services of their own.
    """

    services: ServiceFeatures = made(
        ServiceFeatures,
        choose=by_release(
            {
                0: grpc_versions.alpha,
                32: grpc_versions.newest_or_alpha,
                34: grpc_versions.first_known,
            }
        ),
        invalid=by_release({0: "invalid versions of plugin {name}: {error}", 34: _UNSUPPORTED}),
        failed=by_release({0: "version check of plugin {name} failed: {error}", 34: _UNSUPPORTED}),
        taken=by_release(
            {
                0: "endpoint {endpoint} already registered for plugin {name}",
                34: "endpoint {endpoint} already registered for DRA driver plugin {name}",
            }
        ),
        several=since(33),
        follows_connections=~bug("k8s-132058"),
    )
    # None for kubelets that do not follow health; 1.37 by pull request 139477.
    health: HealthFeatures | None = by_release(
        {
            0: None,
            34: HealthFeatures(("v1alpha1",), careful=False, timeouts=False, messages=False),
            35: HealthFeatures(("v1alpha1",), careful=False, messages=False),
            36: HealthFeatures(("v1alpha1",), careful=False),
            37: HealthFeatures(("v1", "v1alpha1"), careful=True),
        }
    )
    # The format that a kubelet reads and writes.
    codec: Codec = by_release(
        {
            0: ModernCodec(share_ids=False, skips=False),
            35: ModernCodec(share_ids=True, skips=False),
            37: ModernCodec(share_ids=True, skips=True),
        }
    )
    texts: ErrorTexts = by_release({0: UNTIL_33, 34: SINCE_34, 37: SINCE_37})
