"""The admission plugins of a server, in upstream's order (pkg/kubeapiserver/options/plugins.go, 1.36)."""

from apiserver.admission import AdmissionChain
from apiserver.admission.default_tolerations import DefaultTolerationSeconds
from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.admission.priority import Priority
from apiserver.admission.storage_protection import StorageObjectInUseProtection
from apiserver.admission.taint_nodes import TaintNodesByCondition
from apiserver.storage.interfaces import Store


def admission_chain(store: Store) -> AdmissionChain:
    """The chain over one store."""
    return AdmissionChain(
        [
            NamespaceLifecycle(store),
            TaintNodesByCondition(),
            Priority(store),
            DefaultTolerationSeconds(),
            StorageObjectInUseProtection(),
        ]
    )
