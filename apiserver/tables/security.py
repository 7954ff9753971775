"""The rows of role bindings and certificates.

Source: pkg/printers/internalversion/printers.go.
"""

from datetime import timedelta
from types import MappingProxyType

from kubeskew.apimachinery.errors import GroupKind
from kubeskew.apiserver.tables.durations import human_duration
from kubeskew.apiserver.tables.subjects import NONE, Cells, CellTable, Subject, joined, labels


def role_binding(subject: Subject) -> Cells:
    subjects = subject.items("subjects")

    def names(kind: str) -> list[str]:
        return [one.get("name", "") for one in subjects if one.get("kind") == kind]

    accounts = [
        f"{one.get('namespace', '')}/{one.get('name', '')}"
        for one in subjects
        if one.get("kind") == "ServiceAccount"
    ]
    return {
        "Role": f"{subject.text('roleRef', 'kind')}/{subject.text('roleRef', 'name')}",
        "Users": joined(names("User"), separator=", "),
        "Groups": joined(names("Group"), separator=", "),
        "ServiceAccounts": joined(accounts, separator=", "),
    }


def certificate_signing_request(subject: Subject) -> Cells:
    seconds = subject.at("spec", "expirationSeconds")
    return {
        "SignerName": subject.text("spec", "signerName", default=NONE),
        "Requestor": subject.text("spec", "username"),
        "RequestedDuration": NONE if seconds is None else human_duration(timedelta(seconds=seconds)),
        "Condition": _request_state(subject),
    }


def cluster_trust_bundle(subject: Subject) -> Cells:
    return {"SignerName": subject.text("spec", "signerName", default=NONE)}


def pod_certificate_request(subject: Subject) -> Cells:
    kinds = [one.get("type") for one in subject.items("status", "conditions")]
    states = [kind for kind in kinds if kind in ("Issued", "Denied", "Failed")]
    return {
        "PodName": subject.text("spec", "podName"),
        "ServiceAccountName": subject.text("spec", "serviceAccountName"),
        "NodeName": subject.text("spec", "nodeName"),
        "SignerName": subject.text("spec", "signerName"),
        "State": states[-1] if states else "Pending",
        "UnverifiedUserAnnotations": labels(subject.at("spec", "unverifiedUserAnnotations")),
    }


def _request_state(subject: Subject) -> str:
    """A condition counts by its type alone; a denial outweighs an approval."""
    kinds = {one.get("type") for one in subject.items("status", "conditions")}
    state = next((kind for kind in ("Denied", "Approved") if kind in kinds), "Pending")
    failed = ",Failed" if "Failed" in kinds else ""
    issued = ",Issued" if subject.at("status", "certificate") else ""
    return state + failed + issued


CELLS: CellTable = MappingProxyType(
    {
        GroupKind("certificates.k8s.io", "CertificateSigningRequest"): certificate_signing_request,
        GroupKind("certificates.k8s.io", "ClusterTrustBundle"): cluster_trust_bundle,
        GroupKind("certificates.k8s.io", "PodCertificateRequest"): pod_certificate_request,
        GroupKind("rbac.authorization.k8s.io", "ClusterRoleBinding"): role_binding,
        GroupKind("rbac.authorization.k8s.io", "RoleBinding"): role_binding,
    }
)
