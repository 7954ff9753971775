"""An operator with kopf: for each Settings it keeps a ConfigMap of the same name with the same data."""

import os

import kopf
import kubernetes


@kopf.on.login()
def login(**arguments):
    """Logs in as the kubeconfig says."""
    return kopf.login_with_kubeconfig(**arguments)


@kopf.on.startup()
def connect(memo, **_):
    """Makes the client; without a path kubernetes takes the $KUBECONFIG of when it was imported."""
    kubernetes.config.load_kube_config(os.environ.get("KUBECONFIG"))
    memo.api = kubernetes.client.CoreV1Api()


@kopf.on.create("example.com", "v1", "settings")
@kopf.on.update("example.com", "v1", "settings")
@kopf.on.resume("example.com", "v1", "settings")
def keep(spec, name, namespace, memo, **_):
    """Writes the ConfigMap as its Settings wants it."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": dict(spec["data"])}
    kopf.adopt(body)
    try:
        memo.api.create_namespaced_config_map(namespace, body)
    except kubernetes.client.ApiException as error:
        if error.status != 409:  # it is there already
            raise
        memo.api.replace_namespaced_config_map(name, namespace, body)
