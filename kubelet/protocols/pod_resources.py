"""`PodResourcesLister`, which the kubelet serves: `v1`, and the first version's one method."""

from kubeskew.kubelet.protocols.calling import Unary
from kubeskew.kubelet.protocols.messages import pod_resources_v1_pb2 as v1
from kubeskew.kubelet.protocols.messages import pod_resources_v1alpha1_pb2 as v1alpha1

__all__ = ["GET", "GET_ALLOCATABLE", "LIST", "LIST_V1ALPHA1", "v1", "v1alpha1"]

LIST = Unary("v1.PodResourcesLister", "List", v1.ListPodResourcesRequest, v1.ListPodResourcesResponse)
GET_ALLOCATABLE = Unary(
    "v1.PodResourcesLister",
    "GetAllocatableResources",
    v1.AllocatableResourcesRequest,
    v1.AllocatableResourcesResponse,
)
GET = Unary("v1.PodResourcesLister", "Get", v1.GetPodResourcesRequest, v1.GetPodResourcesResponse)
LIST_V1ALPHA1 = Unary(
    "v1alpha1.PodResourcesLister",
    "List",
    v1alpha1.ListPodResourcesRequest,
    v1alpha1.ListPodResourcesResponse,
)
