"""Registers what is particular to the kinds of admissionregistration.k8s.io: each by module and name."""

STRATEGIES = {
    "mutatingadmissionpolicies": "strategy:MutatingPolicyStrategy",
    "mutatingadmissionpolicybindings": "strategy:MutatingBindingStrategy",
    "mutatingwebhookconfigurations": "strategy:MutatingWebhooksStrategy",
    "validatingadmissionpolicies": "strategy:ValidatingPolicyStrategy",
    "validatingadmissionpolicybindings": "strategy:ValidatingBindingStrategy",
    "validatingwebhookconfigurations": "strategy:ValidatingWebhooksStrategy",
}

CELLS = {
    "MutatingAdmissionPolicy": "table:admission_policy",
    "MutatingAdmissionPolicyBinding": "table:admission_policy_binding",
    "MutatingWebhookConfiguration": "table:webhook_configuration",
    "ValidatingAdmissionPolicy": "table:admission_policy",
    "ValidatingAdmissionPolicyBinding": "table:admission_policy_binding",
    "ValidatingWebhookConfiguration": "table:webhook_configuration",
}

DEFAULTS = {
    "v1.MutatingAdmissionPolicy": "defaults:admission_policy",
    "v1.MutatingAdmissionPolicyBinding": "defaults:admission_binding",
    "v1.MutatingWebhookConfiguration": "defaults:mutating_webhooks",
    "v1.ValidatingAdmissionPolicy": "defaults:admission_policy",
    "v1.ValidatingAdmissionPolicyBinding": "defaults:admission_binding",
    "v1.ValidatingWebhookConfiguration": "defaults:validating_webhooks",
    "v1alpha1.MutatingAdmissionPolicy": "defaults:admission_policy",
    "v1alpha1.MutatingAdmissionPolicyBinding": "defaults:admission_binding",
    "v1alpha1.ValidatingAdmissionPolicy": "defaults:admission_policy",
    "v1alpha1.ValidatingAdmissionPolicyBinding": "defaults:admission_binding_alpha",
    "v1beta1.MutatingAdmissionPolicy": "defaults:admission_policy",
    "v1beta1.MutatingAdmissionPolicyBinding": "defaults:admission_binding",
    "v1beta1.ValidatingAdmissionPolicy": "defaults:admission_policy",
    "v1beta1.ValidatingAdmissionPolicyBinding": "defaults:admission_binding",
}
