"""Strategies, cells and defaults of certificates.k8s.io stand here by module and name; `index` imports
them."""

STRATEGIES = {
    "certificatesigningrequests": "certificatesigningrequest:SigningRequestStrategy",
    "clustertrustbundles": "clustertrustbundle:TrustBundleStrategy",
    "podcertificaterequests": "podcertificaterequest:PodCertificateStrategy",
}

CELLS = {
    "CertificateSigningRequest": "certificatesigningrequest:certificate_signing_request_cells",
    "ClusterTrustBundle": "clustertrustbundle:cluster_trust_bundle_cells",
    "PodCertificateRequest": "podcertificaterequest:pod_certificate_request_cells",
}

DEFAULTS = {
    "v1alpha1.PodCertificateRequest": "podcertificaterequest:default_pod_certificate_request",
    "v1beta1.PodCertificateRequest": "podcertificaterequest:default_pod_certificate_request",
}
