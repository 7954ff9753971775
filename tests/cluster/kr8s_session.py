"""Prints what a program sees that uses kr8s, a line of JSON per step: `kr8s_session.py KUBECONFIG
NAMESPACE`."""

import json
import sys
from typing import Any

import kr8s
from kr8s.objects import ConfigMap, Deployment

LABELS = {"app": "web"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "img"}]}}
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": TEMPLATE},
}
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}


def show(step: str, seen: Any) -> None:
    sys.stdout.write(json.dumps([step, seen]) + "\n")


def main(kubeconfig: str, namespace: str) -> None:
    api = kr8s.api(kubeconfig=kubeconfig, namespace=namespace)
    show("version", api.version()["minor"])
    show("who", api.whoami())
    made = ConfigMap(MAP, namespace=namespace, api=api)
    made.create()
    made.patch({"data": {"l": "2"}})
    made.label({"x": "y"})
    made.refresh()
    show("patched", [dict(made.data), dict(made.labels)])
    web = Deployment(WEB, namespace=namespace, api=api)
    web.create()
    web.scale(2)
    web.wait("jsonpath='{.spec.replicas}'=2", timeout=20)
    show("scaled", web.replicas)
    show("discovered", len(list(api.api_resources())) > 50)
    made.delete()
    made.wait("delete", timeout=20)
    show("deleted", not made.exists())


main(*sys.argv[1:])
