"""Strategies, cells and defaults of admissionregistration.k8s.io stand here by module and name; `index`
imports them."""

STRATEGIES = {
    "mutatingadmissionpolicies": "strategy:MutatingPolicyStrategy",
    "mutatingadmissionpolicybindings": "strategy:MutatingBindingStrategy",
    "mutatingwebhookconfigurations": "strategy:MutatingWebhooksStrategy",
    "validatingadmissionpolicies": "strategy:ValidatingPolicyStrategy",
    "validatingadmissionpolicybindings": "strategy:ValidatingBindingStrategy",
    "validatingwebhookconfigurations": "strategy:ValidatingWebhooksStrategy",
}

CELLS = {
    "MutatingAdmissionPolicy": "strategy:admission_policy_cells",
    "MutatingAdmissionPolicyBinding": "strategy:admission_policy_binding_cells",
    "MutatingWebhookConfiguration": "strategy:webhook_configuration_cells",
    "ValidatingAdmissionPolicy": "strategy:admission_policy_cells",
    "ValidatingAdmissionPolicyBinding": "strategy:admission_policy_binding_cells",
    "ValidatingWebhookConfiguration": "strategy:webhook_configuration_cells",
}

DEFAULTS = {
    "v1.MutatingAdmissionPolicy": "strategy:default_admission_policy",
    "v1.MutatingAdmissionPolicyBinding": "strategy:default_admission_binding",
    "v1.MutatingWebhookConfiguration": "strategy:default_mutating_webhooks",
    "v1.ValidatingAdmissionPolicy": "strategy:default_admission_policy",
    "v1.ValidatingAdmissionPolicyBinding": "strategy:default_admission_binding",
    "v1.ValidatingWebhookConfiguration": "strategy:default_validating_webhooks",
    "v1alpha1.MutatingAdmissionPolicy": "strategy:default_admission_policy",
    "v1alpha1.MutatingAdmissionPolicyBinding": "strategy:default_admission_binding_alpha",
    "v1alpha1.ValidatingAdmissionPolicy": "strategy:default_admission_policy",
    "v1alpha1.ValidatingAdmissionPolicyBinding": "strategy:default_admission_binding_alpha",
    "v1beta1.MutatingAdmissionPolicy": "strategy:default_admission_policy",
    "v1beta1.MutatingAdmissionPolicyBinding": "strategy:default_admission_binding",
    "v1beta1.ValidatingAdmissionPolicy": "strategy:default_admission_policy",
    "v1beta1.ValidatingAdmissionPolicyBinding": "strategy:default_admission_binding",
}
