"""Registers what is particular to the kinds of networking.k8s.io: each by module and name."""

STRATEGIES = {
    "ingressclasses": "ingressclass.strategy:IngressClassStrategy",
    "ingresses": "ingress.strategy:IngressStrategy",
    "ipaddresses": "ipaddress.strategy:IPAddressStrategy",
    "networkpolicies": "networkpolicy.strategy:NetworkPolicyStrategy",
    "servicecidrs": "servicecidr.strategy:ServiceCIDRStrategy",
}

CELLS = {
    "ClusterCIDR": "clustercidr.table:cluster_cidr",
    "IPAddress": "ipaddress.table:ip_address",
    "Ingress": "ingress.table:ingress",
    "IngressClass": "ingressclass.table:ingress_class",
    "NetworkPolicy": "networkpolicy.table:network_policy",
    "ServiceCIDR": "servicecidr.table:service_cidr",
}

DEFAULTS = {
    "v1.IngressClass": "ingressclass.defaults:ingress_class",
    "v1.NetworkPolicy": "networkpolicy.defaults:network_policy",
}
