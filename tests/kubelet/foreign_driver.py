"""A DRA driver that shares nothing with the kubelet under test: a program on stubs of its own.

It does what k8s.io/dynamic-resource-allocation/kubeletplugin does for a driver in Go: the plugin's socket
first, then the registrar's; both named after the instance in a rolling update; at the end they go in reverse.

    foreign_driver.py STUBS DRIVER REGISTRAR_DIR PLUGINS_DIR CDI_DIR [INSTANCE]

It writes a JSON list per call, ends on SIGTERM, and calls its device unhealthy from SIGUSR1 on.
"""

import json
import signal
import sys
import threading
from concurrent import futures
from pathlib import Path

import grpc

sys.path.insert(0, sys.argv[1])
import driver_pb2
import driver_pb2_grpc
import health_pb2
import health_pb2_grpc
import registration_pb2
import registration_pb2_grpc

DRIVER, REGISTRAR_DIR, PLUGINS_DIR, CDI_DIR = sys.argv[2], *map(Path, sys.argv[3:6])
INSTANCE = "".join(f"-{name}" for name in sys.argv[6:])
ENDPOINT = PLUGINS_DIR / DRIVER / f"dra{INSTANCE}.sock"
POOL, DEVICE = "node-1", "gpu-0"

ending, ailing = threading.Event(), threading.Event()


def show(*what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Registration(registration_pb2_grpc.RegistrationServicer):
    """Is found by the kubelet, and given the outcome."""

    def GetInfo(self, request, context):  # noqa: N802 - gRPC's name
        return registration_pb2.PluginInfo(
            type="DRAPlugin",
            name=DRIVER,
            endpoint=str(ENDPOINT),
            supported_versions=["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth"],
        )

    def NotifyRegistrationStatus(self, request, context):  # noqa: N802 - gRPC's name
        show("registered", request.plugin_registered, request.error)
        if not request.plugin_registered:
            context.abort(grpc.StatusCode.UNKNOWN, f"failed registration process: {request.error}")
        return registration_pb2.RegistrationStatusResponse()


class Driver(driver_pb2_grpc.DRAPluginServicer):
    """One device for every claim, by a CDI file of the claim's."""

    def NodePrepareResources(self, request, context):  # noqa: N802 - gRPC's name
        show("prepare", sorted(claim.name for claim in request.claims))
        answer = driver_pb2.NodePrepareResourcesResponse()
        for claim in request.claims:
            answer.claims[claim.uid].devices.add(
                request_names=["req"],
                pool_name=POOL,
                device_name=DEVICE,
                cdi_device_ids=[f"{DRIVER}/claim={claim.uid}"],
            )
            edits = {"env": ["GPU=foreign"]}
            devices = [{"name": claim.uid, "containerEdits": edits}]
            spec = {"cdiVersion": "0.5.0", "kind": f"{DRIVER}/claim", "devices": devices}
            _spec(claim).write_text(json.dumps(spec))
        return answer

    def NodeUnprepareResources(self, request, context):  # noqa: N802 - gRPC's name
        show("unprepare", sorted(claim.name for claim in request.claims))
        answer = driver_pb2.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            _spec(claim).unlink(missing_ok=True)
            answer.claims[claim.uid].error = ""
        return answer


class Health(health_pb2_grpc.DRAResourceHealthServicer):
    """Reports the device when asked, and once more when it ails."""

    def NodeWatchResources(self, request, context):  # noqa: N802 - gRPC's name
        device = health_pb2.DeviceIdentifier(pool_name=POOL, device_name=DEVICE)
        for health, over in ((health_pb2.HEALTHY, ailing), (health_pb2.UNHEALTHY, ending)):
            state = health_pb2.DeviceHealth(device=device, health=health)
            yield health_pb2.NodeWatchResourcesResponse(devices=[state])
            over.wait()


def _spec(claim):
    return CDI_DIR / f"{DRIVER}-{claim.uid}.json"


def _serve(socket, *services):
    socket.parent.mkdir(exist_ok=True)
    socket.unlink(missing_ok=True)
    server = grpc.server(futures.ThreadPoolExecutor(4))
    for add, servicer in services:
        add(servicer, server)
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    return server


def main():
    for number, event in ((signal.SIGTERM, ending), (signal.SIGUSR1, ailing)):
        signal.signal(number, lambda *_, event=event: event.set())
    registrar = REGISTRAR_DIR / f"{DRIVER}{INSTANCE}-reg.sock"
    plugin = _serve(
        ENDPOINT,
        (driver_pb2_grpc.add_DRAPluginServicer_to_server, Driver()),
        (health_pb2_grpc.add_DRAResourceHealthServicer_to_server, Health()),
    )
    shown = _serve(registrar, (registration_pb2_grpc.add_RegistrationServicer_to_server, Registration()))
    ending.wait()
    ailing.set()
    for server, socket in ((shown, registrar), (plugin, ENDPOINT)):
        server.stop(None).wait()
        socket.unlink(missing_ok=True)


main()
