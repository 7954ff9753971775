"""Strategies, cells and defaults of resource.k8s.io stand here by module and name; `index` imports them."""

STRATEGIES = {
    "deviceclasses": "deviceclass:DeviceClassStrategy",
    "devicetaintrules": "devicetaintrule:TaintRuleStrategy",
    "resourceclaims": "resourceclaim.strategy:ClaimStrategy",
    "resourceclaimtemplates": "resourceclaimtemplate:ClaimTemplateStrategy",
    "resourcepoolstatusrequests": "resourcepoolstatusrequest:StatusRequestStrategy",
    "resourceslices": "resourceslice.strategy:SliceStrategy",
}

CELLS = {
    "DeviceTaintRule": "devicetaintrule:device_taint_rule_cells",
    "ResourceClaim": "resourceclaim.strategy:resource_claim_cells",
    "ResourcePoolStatusRequest": "resourcepoolstatusrequest:resource_pool_status_request_cells",
    "ResourceSlice": "resourceslice.strategy:resource_slice_cells",
}

DEFAULTS = {
    "v1.DeviceTaintRule": "devicetaintrule:default_taint_rule",
    "v1.ResourceClaim": "resourceclaim.strategy:default_claim",
    "v1.ResourceClaimTemplate": "resourceclaimtemplate:default_template",
    "v1.ResourceSlice": "resourceslice.strategy:default_slice",
    "v1alpha3.DeviceTaintRule": "devicetaintrule:default_taint_rule",
    "v1alpha3.ResourceClaim": "resourceclaim.strategy:default_inline_claim",
    "v1alpha3.ResourceClaimTemplate": "resourceclaimtemplate:default_inline_template",
    "v1alpha3.ResourcePoolStatusRequest": "resourcepoolstatusrequest:default_status_request",
    "v1alpha3.ResourceSlice": "resourceslice.strategy:default_slice",
    "v1beta1.ResourceClaim": "resourceclaim.strategy:default_inline_claim",
    "v1beta1.ResourceClaimTemplate": "resourceclaimtemplate:default_inline_template",
    "v1beta1.ResourceSlice": "resourceslice.strategy:default_slice",
    "v1beta2.DeviceTaintRule": "devicetaintrule:default_taint_rule",
    "v1beta2.ResourceClaim": "resourceclaim.strategy:default_claim",
    "v1beta2.ResourceClaimTemplate": "resourceclaimtemplate:default_template",
    "v1beta2.ResourceSlice": "resourceslice.strategy:default_slice",
}
