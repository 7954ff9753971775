"""A driver with semantic parameters on a node of 1.29+kep4381."""

from kubeskew.kubelet.drivers.classic.node import ClassicNode
from kubeskew.kubelet.drivers.semantic.node_resources import semantic_resources_of
from kubeskew.kubelet.drivers.semantic.services import SemanticServices


class SemanticNode(ClassicNode):
    services = SemanticServices
    list_resources = staticmethod(semantic_resources_of)
