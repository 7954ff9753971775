"""Makes the cells that `kubectl get` shows of CertificateSigningRequest objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from datetime import timedelta

from kubeskew.apiserver.registry.tables.durations import human_duration
from kubeskew.apiserver.registry.tables.subjects import NONE, Cells, Subject


def certificate_signing_request(subject: Subject) -> Cells:
    seconds = subject.at("spec", "expirationSeconds")
    return {
        "SignerName": subject.text("spec", "signerName", default=NONE),
        "Requestor": subject.text("spec", "username"),
        "RequestedDuration": NONE if seconds is None else human_duration(timedelta(seconds=seconds)),
        "Condition": _request_state(subject),
    }


def _request_state(subject: Subject) -> str:
    """Returns the state by the types of conditions; a denial outweighs an approval."""
    kinds = {condition.get("type") for condition in subject.items("status", "conditions")}
    state = next((kind for kind in ("Denied", "Approved") if kind in kinds), "Pending")
    failed = ",Failed" if "Failed" in kinds else ""
    issued = ",Issued" if subject.at("status", "certificate") else ""
    return state + failed + issued
