"""Orders the admission plugins of a server as upstream (pkg/kubeapiserver/options/plugins.go, 1.36).

`_PLUGINS` has a row per plugin; a row with None is a name that only the flags know. `_ON` lists those that
are on by default.
"""

from collections.abc import Callable, Sequence

from kubeskew.apiserver.admission import AdmissionChain, Plugin
from kubeskew.apiserver.admission.escalation import Escalation
from kubeskew.apiserver.admission.plugins import optional
from kubeskew.apiserver.admission.plugins.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from kubeskew.apiserver.admission.plugins.claim_resize import PersistentVolumeClaimResize
from kubeskew.apiserver.admission.plugins.default_classes import DefaultIngressClass, DefaultStorageClass
from kubeskew.apiserver.admission.plugins.limit_ranger import LimitRanger
from kubeskew.apiserver.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from kubeskew.apiserver.admission.plugins.node_restriction import NodeRestriction
from kubeskew.apiserver.admission.plugins.owner_references import OwnerReferencesPermissionEnforcement
from kubeskew.apiserver.admission.plugins.pod_defaults import (
    DefaultTolerationSeconds,
    PodTopologyLabels,
    Priority,
    RuntimeClass,
)
from kubeskew.apiserver.admission.plugins.resource_quota import ResourceQuota
from kubeskew.apiserver.admission.plugins.service_account import ServiceAccount
from kubeskew.apiserver.admission.plugins.storage_protection import (
    PodGroupProtection,
    StorageObjectInUseProtection,
)
from kubeskew.apiserver.admission.plugins.taint_nodes import TaintNodesByCondition
from kubeskew.apiserver.admission.plugins.trust_bundles import ClusterTrustBundleAttest
from kubeskew.apiserver.admission.podsecurity.plugin import PodSecurity
from kubeskew.apiserver.admission.policy.policies import MutatingAdmissionPolicy, ValidatingAdmissionPolicy
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.admission.webhook import MutatingAdmissionWebhook, ValidatingAdmissionWebhook
from kubeskew.apiserver.features import AdmissionFeatures
from kubeskew.apiserver.metrics import AdmissionMetrics

Factory = Callable[[AdmissionServices], Plugin]

_PLUGINS: dict[str, Factory | None] = {
    "AlwaysAdmit": lambda _: Plugin(),
    "NamespaceAutoProvision": None,
    "NamespaceLifecycle": lambda services: NamespaceLifecycle(services.store),
    "NamespaceExists": lambda services: optional.NamespaceExists(services.store),
    "LimitPodHardAntiAffinityTopology": lambda _: optional.LimitPodHardAntiAffinityTopology(),
    "LimitRanger": LimitRanger,
    "ServiceAccount": ServiceAccount,
    "NodeRestriction": lambda services: NodeRestriction(
        services.store, services.features.admission, services.authorizer
    ),
    "TaintNodesByCondition": lambda _: TaintNodesByCondition(),
    "AlwaysPullImages": lambda _: optional.AlwaysPullImages(),
    "ImagePolicyWebhook": None,
    "PodSecurity": PodSecurity,
    "PodNodeSelector": None,
    "Priority": lambda services: Priority(services.store),
    "DefaultTolerationSeconds": lambda _: DefaultTolerationSeconds(),
    "PodTolerationRestriction": None,
    "EventRateLimit": None,
    "ExtendedResourceToleration": lambda _: optional.ExtendedResourceToleration(),
    "DefaultStorageClass": lambda services: DefaultStorageClass(services.store),
    "StorageObjectInUseProtection": lambda services: StorageObjectInUseProtection(
        services.features.admission
    ),
    "OwnerReferencesPermissionEnforcement": lambda services: OwnerReferencesPermissionEnforcement(
        services.authorizer, lambda: services.table
    ),
    "PersistentVolumeClaimResize": lambda services: PersistentVolumeClaimResize(services.store),
    "RuntimeClass": lambda services: RuntimeClass(services.store),
    "CertificateApproval": lambda services: CertificateApproval(services.authorizer),
    "CertificateSigning": lambda services: CertificateSigning(services.authorizer),
    "ClusterTrustBundleAttest": lambda services: ClusterTrustBundleAttest(services.authorizer),
    "CertificateSubjectRestriction": lambda _: CertificateSubjectRestriction(),
    "DefaultIngressClass": lambda services: DefaultIngressClass(services.store),
    "DenyServiceExternalIPs": lambda _: optional.DenyServiceExternalIPs(),
    "PodTopologyLabels": lambda services: PodTopologyLabels(services.store, services.features.admission),
    "NodeDeclaredFeatureValidator": None,
    "PodGroupProtection": lambda services: PodGroupProtection(services.features.admission),
    # What calls out, counts or denies comes last.
    "MutatingAdmissionPolicy": MutatingAdmissionPolicy,
    "MutatingAdmissionWebhook": MutatingAdmissionWebhook,
    "ValidatingAdmissionPolicy": ValidatingAdmissionPolicy,
    "ValidatingAdmissionWebhook": ValidatingAdmissionWebhook,
    "ResourceQuota": ResourceQuota,
    "AlwaysDeny": lambda _: optional.AlwaysDeny(),
}
_ON = frozenset(
    {
        "NamespaceLifecycle", "LimitRanger", "ServiceAccount", "TaintNodesByCondition", "PodSecurity",
        "Priority", "DefaultTolerationSeconds", "DefaultStorageClass", "StorageObjectInUseProtection",
        "PersistentVolumeClaimResize", "RuntimeClass", "CertificateApproval", "CertificateSigning",
        "ClusterTrustBundleAttest", "CertificateSubjectRestriction", "DefaultIngressClass",
        "PodTopologyLabels", "NodeDeclaredFeatureValidator", "MutatingAdmissionPolicy",
        "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook",
        "ResourceQuota", "NodeRestriction",  # the last is off upstream; installers turn it on
    }
)  # fmt: skip


def admission_chain(
    services: AdmissionServices,
    enable: Sequence[str] = (),
    disable: Sequence[str] = (),
    metrics: AdmissionMetrics | None = None,
) -> AdmissionChain:
    """Flags add to the default plugins and take from them; `flag_errors` has checked the flags before."""
    wanted = (_ON | set(enable)) - set(disable) - _switched_off(services.features.admission)
    plugins = [make(services) for name, make in _PLUGINS.items() if make is not None and name in wanted]
    chain = [*plugins, Escalation(services.authorizer, services.features.accounts)]
    return AdmissionChain(chain, metrics, services.environment.clock)


def _switched_off(features: AdmissionFeatures) -> set[str]:
    policies = {
        "ValidatingAdmissionPolicy": features.validating_policies,
        "MutatingAdmissionPolicy": features.mutating_policies,
    }
    return {name for name, on in policies.items() if not on}


def flag_errors(enable: Sequence[str], disable: Sequence[str]) -> list[str]:
    """A plugin that upstream has and this server lacks is an error only when it is enabled."""
    errors = [
        f'{flag} plugin "{name}" is unknown'
        for flag, names in (("enable-admission-plugins", enable), ("disable-admission-plugins", disable))
        for name in names
        if name not in _PLUGINS
    ]
    both = sorted(set(enable) & set(disable))
    if both:
        errors.append(
            f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins overlapped"
        )
    errors += [f'plugin "{name}" is not built' for name in enable if _PLUGINS.get(name, Plugin) is None]
    return errors
