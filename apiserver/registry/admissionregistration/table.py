"""Makes the cells that `kubectl get` shows of MutatingWebhookConfiguration objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.tables.subjects import UNSET, Cells, Subject


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


def _selector_as_go(selector: Object) -> str:
    """Returns a selector as the Go type prints itself (from memory of the generated stringer)."""
    pairs = sorted((selector.get("matchLabels") or {}).items())
    labels = "".join(f"{key}: {value}," for key, value in pairs)
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{expression.get('key', '')},"
        f"Operator:{expression.get('operator', '')},"
        f"Values:[{' '.join(expression.get('values') or ())}],}},"
        for expression in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
