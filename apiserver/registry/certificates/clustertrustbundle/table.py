"""Makes the cells that `kubectl get` shows of ClusterTrustBundle objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import NONE, Cells, Subject


def cluster_trust_bundle(subject: Subject) -> Cells:
    return {"SignerName": subject.text("spec", "signerName", default=NONE)}
