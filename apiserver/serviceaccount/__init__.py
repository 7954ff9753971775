"""Issues and checks tokens of service accounts: keys and claims."""

ISSUER = "https://kubernetes.default.svc.cluster.local"  # kubeadm's
USER_PREFIX = "system:serviceaccount:"
ALL_ACCOUNTS = "system:serviceaccounts"


def user_name(namespace: str, name: str) -> str:
    return f"{USER_PREFIX}{namespace}:{name}"


def group_names(namespace: str) -> tuple[str, str]:
    return ALL_ACCOUNTS, f"{ALL_ACCOUNTS}:{namespace}"
