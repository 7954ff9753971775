"""Registers what is particular to the kinds of resource.k8s.io: each by module and name."""

STRATEGIES = {
    "deviceclasses": "deviceclass.strategy:DeviceClassStrategy",
    "devicetaintrules": "devicetaintrule.strategy:TaintRuleStrategy",
    "noderesourceslices": "semantic.strategy:NodeSliceStrategy",
    "podschedulingcontexts": "classic.strategy:SchedulingContextStrategy",
    "podschedulings": "classic.strategy:SchedulingContextStrategy",
    "resourceclaimparameters": "classic.strategy:ClaimParametersStrategy",
    "resourceclaims": "resourceclaim.strategy:ClaimStrategy",
    "resourceclaimtemplates": "resourceclaimtemplate.strategy:ClaimTemplateStrategy",
    "resourceclassparameters": "classic.strategy:ClassParametersStrategy",
    "resourceclasses": "classic.strategy:ResourceClassStrategy",
    "resourcepoolstatusrequests": "resourcepoolstatusrequest.strategy:StatusRequestStrategy",
    "resourceslices": "resourceslice.strategy:SliceStrategy",
}

CELLS = {
    "DeviceTaintRule": "devicetaintrule.table:device_taint_rule",
    "NodeResourceSlice": "semantic.table:node_resource_slice",
    "PodScheduling": "classic.table:pod_scheduling_context",
    "PodSchedulingContext": "classic.table:pod_scheduling_context",
    "ResourceClaim": "resourceclaim.table:resource_claim",
    "ResourceClaimParameters": "classic.table:generated_parameters",
    "ResourceClaimTemplate": "resourceclaimtemplate.table:resource_claim_template",
    "ResourceClass": "classic.table:resource_class",
    "ResourceClassParameters": "classic.table:generated_parameters",
    "ResourcePoolStatusRequest": "resourcepoolstatusrequest.table:resource_pool_status_request",
    "ResourceSlice": "resourceslice.table:resource_slice",
}

DEFAULTS = {
    "v1.DeviceTaintRule": "devicetaintrule.defaults:taint_rule",
    "v1.ResourceClaim": "resourceclaim.defaults:claim",
    "v1.ResourceClaimTemplate": "resourceclaimtemplate.defaults:template",
    "v1.ResourceSlice": "resourceslice.defaults:slice_",
    "v1alpha1.ResourceClaim": "resourceclaim.defaults:classic_claim",
    "v1alpha1.ResourceClaimTemplate": "resourceclaimtemplate.defaults:classic_template",
    "v1alpha2.NodeResourceSlice": "semantic.defaults:node_slice",
    "v1alpha2.ResourceClaim": "resourceclaim.defaults:classic_claim",
    "v1alpha2.ResourceClaimTemplate": "resourceclaimtemplate.defaults:classic_template",
    "v1alpha3.DeviceTaintRule": "devicetaintrule.defaults:taint_rule",
    "v1alpha3.ResourceClaim": "resourceclaim.defaults:inline_claim",
    "v1alpha3.ResourceClaimTemplate": "resourceclaimtemplate.defaults:inline_template",
    "v1alpha3.ResourcePoolStatusRequest": "resourcepoolstatusrequest.defaults:status_request",
    "v1alpha3.ResourceSlice": "resourceslice.defaults:slice_",
    "v1beta1.ResourceClaim": "resourceclaim.defaults:inline_claim",
    "v1beta1.ResourceClaimTemplate": "resourceclaimtemplate.defaults:inline_template",
    "v1beta1.ResourceSlice": "resourceslice.defaults:slice_",
    "v1beta2.DeviceTaintRule": "devicetaintrule.defaults:taint_rule",
    "v1beta2.ResourceClaim": "resourceclaim.defaults:claim",
    "v1beta2.ResourceClaimTemplate": "resourceclaimtemplate.defaults:template",
    "v1beta2.ResourceSlice": "resourceslice.defaults:slice_",
}
