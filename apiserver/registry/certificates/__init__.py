"""Registers what is particular to the kinds of certificates.k8s.io: each by module and name."""

STRATEGIES = {
    "certificatesigningrequests": "certificatesigningrequest.strategy:SigningRequestStrategy",
    "clustertrustbundles": "clustertrustbundle.strategy:TrustBundleStrategy",
    "podcertificaterequests": "podcertificaterequest.strategy:PodCertificateStrategy",
}

CELLS = {
    "CertificateSigningRequest": "certificatesigningrequest.table:certificate_signing_request",
    "ClusterTrustBundle": "clustertrustbundle.table:cluster_trust_bundle",
    "PodCertificateRequest": "podcertificaterequest.table:pod_certificate_request",
}

DEFAULTS = {
    "v1alpha1.PodCertificateRequest": "podcertificaterequest.defaults:pod_certificate_request",
    "v1beta1.PodCertificateRequest": "podcertificaterequest.defaults:pod_certificate_request",
}
