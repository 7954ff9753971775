"""The rows of the kinds that steer the control plane: admission, priority of requests, leases, extensions.

Source: pkg/printers/internalversion/printers.go; pkg/registry/apiservice/rest.go of kube-aggregator for
APIService (from memory).
"""

from types import MappingProxyType

from kubeskew.apimachinery.errors import GroupKind, Object
from kubeskew.apiserver.tables.subjects import NONE, UNSET, Cell, Cells, CellTable, Subject


def webhook_configuration(subject: Subject) -> Cells:
    return {"Webhooks": subject.count("webhooks")}


def admission_policy(subject: Subject) -> Cells:
    kind = subject.at("spec", "paramKind")
    return {
        "Validations": subject.count("spec", "validations"),
        "Mutations": subject.count("spec", "mutations"),
        "ParamKind": UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}",
    }


def admission_policy_binding(subject: Subject) -> Cells:
    reference = subject.at("spec", "paramRef") or {}
    parameters = UNSET
    if reference.get("name"):
        parameters = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif reference.get("selector") is not None:
        parameters = _selector_as_go(reference["selector"])
    return {"PolicyName": subject.text("spec", "policyName"), "ParamRef": parameters}


def flow_schema(subject: Subject) -> Cells:
    return {
        "PriorityLevel": subject.text("spec", "priorityLevelConfiguration", "name"),
        "MatchingPrecedence": subject.number("spec", "matchingPrecedence"),
        "DistinguisherMethod": subject.text("spec", "distinguisherMethod", "type", default=NONE),
        "MissingPL": (subject.condition("Dangling") or {"status": "?"}).get("status", ""),
    }


def priority_level_configuration(subject: Subject) -> Cells:
    limited = subject.at("spec", "limited")
    queuing = subject.at("spec", "limited", "limitResponse", "queuing")

    def of_queues(name: str) -> Cell:
        return NONE if queuing is None else int(queuing.get(name) or 0)

    shares: Cell = NONE
    if limited is not None:
        # The first two betas have another name for it.
        named = "nominalConcurrencyShares", "assuredConcurrencyShares"
        shares = next((limited[name] for name in named if limited.get(name) is not None), 0)
    return {
        "Type": subject.text("spec", "type"),
        "NominalConcurrencyShares": shares,
        "Queues": of_queues("queues"),
        "HandSize": of_queues("handSize"),
        "QueueLengthLimit": of_queues("queueLengthLimit"),
    }


def lease(subject: Subject) -> Cells:
    return {"Holder": subject.text("spec", "holderIdentity")}


def lease_candidate(subject: Subject) -> Cells:
    return {
        "LeaseName": subject.text("spec", "leaseName"),
        "BinaryVersion": subject.text("spec", "binaryVersion"),
        "EmulationVersion": subject.text("spec", "emulationVersion"),
    }


def runtime_class(subject: Subject) -> Cells:
    return {"Handler": subject.text("handler")}


def api_service(subject: Subject) -> Cells:
    service = subject.at("spec", "service")
    available = subject.condition("Available") or {"status": "Unknown"}
    state = available.get("status", "")
    if state != "True" and available.get("reason"):
        state = f"{state} ({available['reason']})"
    local = service is None
    return {
        "Service": "Local" if local else f"{service.get('namespace', '')}/{service.get('name', '')}",
        "Available": state,
    }


def _selector_as_go(selector: Object) -> str:
    """A selector as the Go type prints itself (from memory of the generated stringer)."""
    pairs = sorted((selector.get("matchLabels") or {}).items())
    labels = "".join(f"{key}: {value}," for key, value in pairs)
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{one.get('key', '')},Operator:{one.get('operator', '')},"
        f"Values:[{' '.join(one.get('values') or ())}],}},"
        for one in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


CELLS: CellTable = MappingProxyType(
    {
        GroupKind("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): admission_policy,
        GroupKind("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): admission_policy_binding,
        GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): webhook_configuration,
        GroupKind("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): admission_policy,
        GroupKind(
            "admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"
        ): admission_policy_binding,
        GroupKind("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): webhook_configuration,
        GroupKind("apiregistration.k8s.io", "APIService"): api_service,
        GroupKind("coordination.k8s.io", "Lease"): lease,
        GroupKind("coordination.k8s.io", "LeaseCandidate"): lease_candidate,
        GroupKind("flowcontrol.apiserver.k8s.io", "FlowSchema"): flow_schema,
        GroupKind("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): priority_level_configuration,
        GroupKind("node.k8s.io", "RuntimeClass"): runtime_class,
    }
)
