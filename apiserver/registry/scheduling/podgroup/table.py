"""Makes the cells that `kubectl get` shows of CompositePodGroup objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import NONE, Cells, Subject


def pod_group(subject: Subject) -> Cells:
    return {
        "Policy": "Basic" if subject.at("spec", "schedulingPolicy", "gang") is None else "Gang",
        # 1.36 names the workload inside the reference to the template
        "Workload": subject.text("spec", "workloadRef", "workloadName")
        or subject.text("spec", "podGroupTemplateRef", "workload", "workloadName", default=NONE),
        "Status": _group_state(subject),
    }


def _group_state(subject: Subject) -> str:
    disrupted = subject.condition("DisruptionTarget")
    if disrupted is not None:
        return str(disrupted.get("reason", ""))
    scheduled = subject.condition("PodGroupInitiallyScheduled") or subject.condition("PodGroupScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"
