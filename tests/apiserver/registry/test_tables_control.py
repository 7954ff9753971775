"""Rows of the kinds that steer and guard the control plane: an object in, cells out."""

from typing import Any

import pytest
from table_rows import row

ADMISSION = "admissionregistration.k8s.io/v1"
FLOW = "flowcontrol.apiserver.k8s.io"
SUBJECTS = [
    {"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "User", "name": "v"},
    {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
]  # fmt: skip
CHOSEN = {
    "matchLabels": {"b": "2", "a": "1"},
    "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}],
}
QUEUES = {"queues": 64, "handSize": 6, "queueLengthLimit": 50}


def available(status: str, reason: str = "") -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "Available", "status": status, "reason": reason}]}}


def requested(*kinds: str, **status: Any) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": kind} for kind in kinds], **status}}


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "rbac.authorization.k8s.io/v1 RoleBinding",
        {"roleRef": {"kind": "Role", "name": "r"}, "subjects": SUBJECTS},
        {"Role": "Role/r", "Users": "u, v", "Groups": "g", "ServiceAccounts": "n/s"},
    ),
    (
        "rbac.authorization.k8s.io/v1 ClusterRoleBinding",
        {"roleRef": {"kind": "ClusterRole", "name": "r"}},
        {"Role": "ClusterRole/r", "Users": "", "Groups": "", "ServiceAccounts": ""},
    ),
    (
        "certificates.k8s.io/v1 CertificateSigningRequest",
        {"spec": {"signerName": "s.io/x", "username": "u", "expirationSeconds": 86400}},
        {"Age": "5m", "SignerName": "s.io/x", "Requestor": "u", "RequestedDuration": "24h",
         "Condition": "Pending"},
    ),
    ("certificates.k8s.io/v1 CertificateSigningRequest", requested("Approved", "Denied"),
     {"RequestedDuration": "<none>", "Condition": "Denied"}),
    ("certificates.k8s.io/v1 CertificateSigningRequest", requested("Approved", certificate="eA=="),
     {"Condition": "Approved,Issued"}),
    ("certificates.k8s.io/v1 CertificateSigningRequest", requested("Approved", "Failed"),
     {"Condition": "Approved,Failed"}),
    ("certificates.k8s.io/v1beta1 ClusterTrustBundle", {}, {"SignerName": "<none>"}),
    (
        "certificates.k8s.io/v1beta1 PodCertificateRequest",
        {"spec": {"podName": "p", "serviceAccountName": "s", "nodeName": "n", "signerName": "g.io/s",
                  "unverifiedUserAnnotations": {"a": "1"}}, **requested("Issued", "Other")},
        {"PodName": "p", "ServiceAccountName": "s", "NodeName": "n", "SignerName": "g.io/s",
         "State": "Issued", "UnverifiedUserAnnotations": "a=1"},
    ),
    ("coordination.k8s.io/v1 Lease", {"spec": {"holderIdentity": "me"}}, {"Holder": "me", "Age": "5m"}),
    (
        "coordination.k8s.io/v1beta1 LeaseCandidate",
        {"spec": {"leaseName": "l", "binaryVersion": "1.36.0", "emulationVersion": "1.35.0"}},
        {"LeaseName": "l", "BinaryVersion": "1.36.0", "EmulationVersion": "1.35.0"},
    ),
    ("node.k8s.io/v1 RuntimeClass", {"handler": "h"}, {"Handler": "h"}),
    (f"{ADMISSION} MutatingWebhookConfiguration", {"webhooks": [{}, {}]}, {"Webhooks": 2}),
    (f"{ADMISSION} ValidatingWebhookConfiguration", {}, {"Webhooks": 0}),
    (
        f"{ADMISSION} ValidatingAdmissionPolicy",
        {"spec": {"validations": [{}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}},
        {"Validations": 1, "ParamKind": "v1/ConfigMap"},
    ),
    (f"{ADMISSION} MutatingAdmissionPolicy", {"spec": {"mutations": [{}]}},
     {"Mutations": 1, "ParamKind": "<unset>"}),
    (f"{ADMISSION} ValidatingAdmissionPolicyBinding", {"spec": {"policyName": "p"}},
     {"PolicyName": "p", "ParamRef": "<unset>"}),
    (f"{ADMISSION} ValidatingAdmissionPolicyBinding", {"spec": {"paramRef": {"name": "n"}}},
     {"ParamRef": "*/n"}),
    (f"{ADMISSION} MutatingAdmissionPolicyBinding", {"spec": {"paramRef": {"name": "n", "namespace": "s"}}},
     {"ParamRef": "s/n"}),
    (
        f"{ADMISSION} ValidatingAdmissionPolicyBinding",
        {"spec": {"paramRef": {"selector": CHOSEN}}},
        {"ParamRef": "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},"
                     "MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement"
                     "{Key:k,Operator:In,Values:[x y],},},}"},
    ),
    (
        f"{FLOW}/v1 FlowSchema",
        {"spec": {"matchingPrecedence": 5, "priorityLevelConfiguration": {"name": "p"},
                  "distinguisherMethod": {"type": "ByUser"}},
         "status": {"conditions": [{"type": "Dangling", "status": "False"}]}},
        {"PriorityLevel": "p", "MatchingPrecedence": 5, "DistinguisherMethod": "ByUser",
         "MissingPL": "False"},
    ),
    (f"{FLOW}/v1 FlowSchema", {}, {"DistinguisherMethod": "<none>", "MissingPL": "?"}),
    (
        f"{FLOW}/v1 PriorityLevelConfiguration",
        {"spec": {"type": "Limited",
                  "limited": {"nominalConcurrencyShares": 0, "limitResponse": {"queuing": QUEUES}}}},
        {"Type": "Limited", "NominalConcurrencyShares": 0, "Queues": 64, "HandSize": 6,
         "QueueLengthLimit": 50},
    ),
    (f"{FLOW}/v1 PriorityLevelConfiguration", {"spec": {"type": "Exempt"}},
     {"NominalConcurrencyShares": "<none>", "Queues": "<none>", "HandSize": "<none>"}),
    ("apiregistration.k8s.io/v1 APIService", {**available("True", "Local")},
     {"Service": "Local", "Available": "True", "Age": "5m"}),
    (
        "apiregistration.k8s.io/v1 APIService",
        {"spec": {"service": {"namespace": "n", "name": "s"}}, **available("False", "MissingEndpoints")},
        {"Service": "n/s", "Available": "False (MissingEndpoints)"},
    ),
    ("apiregistration.k8s.io/v1 APIService", {}, {"Available": "Unknown"}),
]  # fmt: skip


@pytest.mark.parametrize(("of", "obj", "cells"), CASES)
def test_cells(of: str, obj: dict, cells: dict):
    """The cells named are these."""
    printed = row(of, obj)
    assert {name: printed[name] for name in cells} == cells


def test_shares_had_another_name():
    """The first betas of priority levels assured what later ones call nominal."""
    spec = {"limited": {"assuredConcurrencyShares": 9}}
    level = row(f"{FLOW}/v1beta2 PriorityLevelConfiguration", {"spec": spec}, minor=28)
    assert level["NominalConcurrencyShares"] == 9
