"""A device plugin that shares nothing with the kubelet under test: a program on stubs of its own.

It offers `gpu-0` and `gpu-1`, would rather give the second, registers again whenever the kubelet's socket is
another, and ends on SIGTERM.

    foreign_device_plugin.py STUBS RESOURCE DIRECTORY

It writes a JSON list per call.
"""

import json
import signal
import sys
import threading
from concurrent import futures
from pathlib import Path

import grpc

sys.path.insert(0, sys.argv[1])
import deviceplugin_pb2 as api
import deviceplugin_pb2_grpc as stubs

RESOURCE, DIRECTORY = sys.argv[2], Path(sys.argv[3])
KUBELET, SOCKET = DIRECTORY / "kubelet.sock", DIRECTORY / "foreign.sock"
OPTIONS = api.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)

ending = threading.Event()


def show(*what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Plugin(stubs.DevicePluginServicer):
    """The services that the kubelet calls."""

    def GetDevicePluginOptions(self, request, context):  # noqa: N802 - gRPC's name
        return OPTIONS

    def ListAndWatch(self, request, context):  # noqa: N802 - gRPC's name
        devices = [api.Device(ID=f"gpu-{number}", health="Healthy") for number in range(2)]
        yield api.ListAndWatchResponse(devices=devices)
        over = threading.Event()
        context.add_callback(over.set)
        over.wait()

    def GetPreferredAllocation(self, request, context):  # noqa: N802 - gRPC's name
        (wanted,) = request.container_requests
        chosen = sorted(wanted.available_deviceIDs)[-wanted.allocation_size :]
        return api.PreferredAllocationResponse(
            container_responses=[api.ContainerPreferredAllocationResponse(deviceIDs=chosen)]
        )

    def Allocate(self, request, context):  # noqa: N802 - gRPC's name
        (wanted,) = request.container_requests
        show("allocate", sorted(wanted.devices_ids))
        nodes = [
            api.DeviceSpec(container_path=f"/dev/{name}", host_path=f"/dev/{name}", permissions="rw")
            for name in wanted.devices_ids
        ]
        envs = {"GPUS": ",".join(wanted.devices_ids)}
        return api.AllocateResponse(
            container_responses=[api.ContainerAllocateResponse(envs=envs, devices=nodes)]
        )

    def PreStartContainer(self, request, context):  # noqa: N802 - gRPC's name
        show("pre-start", sorted(request.devices_ids))
        return api.PreStartContainerResponse()


def _stamp():
    try:
        found = KUBELET.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns


def _serve():
    SOCKET.unlink(missing_ok=True)
    server = grpc.server(futures.ThreadPoolExecutor(4))
    stubs.add_DevicePluginServicer_to_server(Plugin(), server)
    server.add_insecure_port(f"unix:{SOCKET}")
    server.start()
    return server


def _register():
    request = api.RegisterRequest(
        version="v1beta1", endpoint=SOCKET.name, resource_name=RESOURCE, options=OPTIONS
    )
    with grpc.insecure_channel(f"unix:{KUBELET}") as channel:
        stubs.RegistrationStub(channel).Register(request, timeout=10)
    show("registered")


def main():
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    server, known = None, None
    while not ending.wait(0.02):
        found = _stamp()
        if found is None or found == known:
            continue
        if server is not None:
            server.stop(None).wait()
        server = _serve()
        try:
            _register()
        except grpc.RpcError:
            continue  # not listening yet, or not any more
        known = found
    if server is not None:
        server.stop(None).wait()
    SOCKET.unlink(missing_ok=True)


main()
