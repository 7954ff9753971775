"""Makes the cells that `kubectl get` shows of PodCertificateRequest objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import Cells, Subject, labels


def pod_certificate_request(subject: Subject) -> Cells:
    kinds = [condition.get("type") for condition in subject.items("status", "conditions")]
    states = [kind for kind in kinds if kind in ("Issued", "Denied", "Failed")]
    return {
        "PodName": subject.text("spec", "podName"),
        "ServiceAccountName": subject.text("spec", "serviceAccountName"),
        "NodeName": subject.text("spec", "nodeName"),
        "SignerName": subject.text("spec", "signerName"),
        "State": states[-1] if states else "Pending",
        "UnverifiedUserAnnotations": labels(subject.at("spec", "unverifiedUserAnnotations")),
    }
