"""Leave nothing of what configures admission, for the next test."""

GROUP = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = (
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
)
OBJECTS = (
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/pods?gracePeriodSeconds=0",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
)


async def clean(call):
    """Delete every webhook and policy, then what tests write."""
    for plural in CONFIGURATIONS:
        assert (await call.delete(f"{GROUP}/{plural}")).status == 200
    for path in OBJECTS:
        assert (await call.delete(path)).status == 200
