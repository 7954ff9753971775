"""The admission plugins of a server, in upstream's order (pkg/kubeapiserver/options/plugins.go, 1.36)."""

from typing import TYPE_CHECKING

from apiserver.admission import AdmissionChain
from apiserver.admission.default_tolerations import DefaultTolerationSeconds
from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.admission.priority import Priority
from apiserver.admission.storage_protection import StorageObjectInUseProtection
from apiserver.admission.taint_nodes import TaintNodesByCondition

if TYPE_CHECKING:
    from apiserver.services import Services


def admission_chain(services: "Services") -> AdmissionChain:
    """The chain of one server."""
    store = services.store
    return AdmissionChain(
        [
            NamespaceLifecycle(store),
            TaintNodesByCondition(),
            Priority(store),
            DefaultTolerationSeconds(),
            StorageObjectInUseProtection(),
        ]
    )
