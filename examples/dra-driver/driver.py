"""A driver for dynamic resource allocation: `driver.py NODE REGISTRAR-DIR PLUGINS-DIR CDI-DIR`.

On a real node the directories are /var/lib/kubelet/plugins_registry, /var/lib/kubelet/plugins and
/var/run/cdi.
It gives two devices out, by CDI: a container gets their names as $GPUS.
"""

import json
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import kubernetes
import urllib3

NAME = "gpu.example.com"
DEVICES = ("gpu-0", "gpu-1")
RETRY_SECONDS = 0.3

sys.path.insert(0, str(Path(__file__).parent))  # where grpc looks for the files
registration, registration_services = grpc.protos_and_services("registration.proto")
dra, dra_services = grpc.protos_and_services("dra.proto")


class Registration(registration_services.RegistrationServicer):
    """Shows the kubelet, which finds the socket in its registry, where the driver is."""

    def __init__(self, endpoint):
        self._endpoint = str(endpoint)

    def GetInfo(self, request, context):
        return registration.PluginInfo(
            type="DRAPlugin", name=NAME, endpoint=self._endpoint, supported_versions=["v1.DRAPlugin"]
        )

    def NotifyRegistrationStatus(self, request, context):
        print("registered" if request.plugin_registered else f"refused: {request.error}", flush=True)
        return registration.RegistrationStatusResponse()


class Driver(dra_services.DRAPluginServicer):
    """Prepares the devices of claims by a CDI spec for each, and takes the spec away again."""

    def __init__(self, node, specs):
        self._node = node
        self._specs = specs
        self._api = kubernetes.client.ResourceV1Api()

    def NodePrepareResources(self, request, context):
        answer = dra.NodePrepareResourcesResponse()
        for claim in request.claims:
            try:
                devices = self._prepare(claim)
                answer.claims[claim.uid].devices.extend(devices)
            except Exception as error:
                answer.claims[claim.uid].error = f"{type(error).__name__}: {error}"
        return answer

    def _prepare(self, claim):
        found = self._api.read_namespaced_resource_claim(claim.name, claim.namespace)
        if found.metadata.uid != claim.uid:
            raise LookupError(f"{claim.namespace}/{claim.name} is another claim by now")
        results = [each for each in found.status.allocation.devices.results if each.driver == NAME]
        names = ",".join(each.device for each in results)
        print(f"prepare {claim.name}: {names}", flush=True)
        edits = {"env": [f"GPUS={names}"]}
        spec = {
            "cdiVersion": "0.6.0",
            "kind": f"{NAME}/claim",
            "devices": [{"name": claim.uid, "containerEdits": edits}],
        }
        self._specs.mkdir(parents=True, exist_ok=True)
        partial = self._spec(claim).with_suffix(".partial")
        partial.write_text(json.dumps(spec))
        partial.rename(self._spec(claim))  # at once: the kubelet may ask again after a restart
        return [
            dra.Device(
                request_names=[each.request],
                pool_name=each.pool,
                device_name=each.device,
                cdi_device_ids=[f"{NAME}/claim={claim.uid}"],
            )
            for each in results
        ]

    def NodeUnprepareResources(self, request, context):
        answer = dra.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            print(f"unprepare {claim.name}", flush=True)
            self._spec(claim).unlink(missing_ok=True)
            answer.claims[claim.uid].SetInParent()
        return answer

    def _spec(self, claim):
        return self._specs / f"{NAME}-{claim.uid}.json"

    def publish(self):
        """Publishes the devices, unless they are: a kubelet that restarts may have taken them away."""
        slices = self._api.list_resource_slice(
            field_selector=f"spec.driver={NAME},spec.nodeName={self._node}"
        )
        if slices.items:
            return
        spec = {
            "driver": NAME,
            "nodeName": self._node,
            "pool": {"name": self._node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": name} for name in DEVICES],
        }
        metadata = {"generateName": f"{self._node}-"}
        self._api.create_resource_slice(
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
        )


def serve(socket, add, service):
    """Serves on a Unix socket, in the place of what an earlier run has left there."""
    socket.parent.mkdir(parents=True, exist_ok=True)
    socket.unlink(missing_ok=True)
    server = grpc.server(ThreadPoolExecutor(2))
    add(service, server)
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    return server


def main(node, registrar, plugins, specs):
    kubernetes.config.load_kube_config()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    driver, endpoint = Driver(node, Path(specs)), Path(plugins) / NAME / "dra.sock"
    servers = [
        serve(endpoint, dra_services.add_DRAPluginServicer_to_server, driver),
        serve(
            Path(registrar) / f"{NAME}-reg.sock",
            registration_services.add_RegistrationServicer_to_server,
            Registration(endpoint),
        ),
    ]
    while not stop.is_set():
        try:
            driver.publish()
        except (kubernetes.client.ApiException, urllib3.exceptions.HTTPError) as error:
            print(f"once more: {error}", flush=True)
        stop.wait(RETRY_SECONDS)
    for server in servers:
        server.stop(grace=None).wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
