"""Makes the cells that `kubectl get` shows of ClusterRoleBinding objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import Cells, Subject, joined


def role_binding(subject: Subject) -> Cells:
    subjects = subject.items("subjects")

    def names(kind: str) -> list[str]:
        return [subject.get("name", "") for subject in subjects if subject.get("kind") == kind]

    accounts = [
        f"{one.get('namespace', '')}/{one.get('name', '')}"
        for one in subjects
        if one.get("kind") == "ServiceAccount"
    ]
    return {
        "Role": f"{subject.text('roleRef', 'kind')}/{subject.text('roleRef', 'name')}",
        "Users": joined(names("User"), separator=", "),
        "Groups": joined(names("Group"), separator=", "),
        "ServiceAccounts": joined(accounts, separator=", "),
    }
