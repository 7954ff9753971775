"""Strategies, cells and defaults of networking.k8s.io stand here by module and name; `index` imports them."""

STRATEGIES = {
    "ingressclasses": "ingressclass:IngressClassStrategy",
    "ingresses": "ingress:IngressStrategy",
    "ipaddresses": "ipaddress:IPAddressStrategy",
    "networkpolicies": "networkpolicy:NetworkPolicyStrategy",
    "servicecidrs": "servicecidr:ServiceCIDRStrategy",
}

CELLS = {
    "ClusterCIDR": "clustercidr:cluster_cidr_cells",
    "IPAddress": "ipaddress:ip_address_cells",
    "Ingress": "ingress:ingress_cells",
    "IngressClass": "ingressclass:ingress_class_cells",
    "NetworkPolicy": "networkpolicy:network_policy_cells",
    "ServiceCIDR": "servicecidr:service_cidr_cells",
}

DEFAULTS = {
    "v1.IngressClass": "ingressclass:default_ingress_class",
    "v1.NetworkPolicy": "networkpolicy:default_network_policy",
}
