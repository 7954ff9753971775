"""Strategies, cells and defaults of classic dynamic resource allocation (1.26 to 1.31) by module and name."""

STRATEGIES = {
    "podschedulingcontexts": "podschedulingcontext:SchedulingContextStrategy",
    "podschedulings": "podschedulingcontext:SchedulingContextStrategy",
    "resourceclaimparameters": "structured_parameters:ClaimParametersStrategy",
    "resourceclassparameters": "structured_parameters:ClassParametersStrategy",
    "resourceclasses": "resourceclass:ResourceClassStrategy",
    "v1alpha1.resourceclaims": "resourceclaim:ClaimStrategy",
    "v1alpha1.resourceclaimtemplates": "resourceclaim:ClaimTemplateStrategy",
    "v1alpha2.resourceclaims": "resourceclaim:ClaimStrategy",
    "v1alpha2.resourceclaimtemplates": "resourceclaim:ClaimTemplateStrategy",
    "v1alpha2.resourceslices": "structured_parameters:SliceStrategy",
    "v1alpha3.resourceclaims": "resourceclaim:ControllerClaimStrategy",
}

CELLS = {
    "PodScheduling": "podschedulingcontext:pod_scheduling_context_cells",
    "PodSchedulingContext": "podschedulingcontext:pod_scheduling_context_cells",
    "ResourceClaimParameters": "structured_parameters:generated_parameters_cells",
    "ResourceClass": "resourceclass:resource_class_cells",
    "ResourceClassParameters": "structured_parameters:generated_parameters_cells",
    "v1alpha1.ResourceClaim": "resourceclaim:resource_claim_cells",
    "v1alpha1.ResourceClaimTemplate": "resourceclaim:resource_claim_template_cells",
    "v1alpha2.ResourceClaim": "resourceclaim:resource_claim_cells",
    "v1alpha2.ResourceClaimTemplate": "resourceclaim:resource_claim_template_cells",
    "v1alpha2.ResourceSlice": "structured_parameters:resource_slice_cells",
    "v1alpha3.ResourceClaim": "resourceclaim:controller_claim_cells",
}

DEFAULTS = {
    "v1alpha1.ResourceClaim": "resourceclaim:default_claim",
    "v1alpha1.ResourceClaimTemplate": "resourceclaim:default_template",
    "v1alpha2.ResourceClaim": "resourceclaim:default_claim",
    "v1alpha2.ResourceClaimTemplate": "resourceclaim:default_template",
}
