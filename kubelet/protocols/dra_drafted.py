"""The service of a resource plugin on a node, as KEP-3063's draft has it.

The full name is a guess: that of 1.26.
"""

from kubeskew.kubelet.protocols.grpc_calls import Unary
from kubeskew.kubelet.protocols.messages import dra_drafted_pb2 as messages

RESOURCE_PLUGIN = "ResourcePlugin"  # the type with which plugins register
SERVICE = "v1alpha1.Node"

PREPARE = Unary(
    SERVICE, "NodePrepareResource", messages.NodePrepareResourceRequest, messages.NodePrepareResourceResponse
)
UNPREPARE = Unary(
    SERVICE,
    "NodeUnprepareResource",
    messages.NodeUnprepareResourceRequest,
    messages.NodeUnprepareResourceResponse,
)
