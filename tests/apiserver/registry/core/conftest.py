"""A server with a node whose fake containers run."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry
from server_in_process import Caller, close_server, open_server
from streaming_node import CONTAINERS, PODS, Bench, StreamingRuntime

from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.process.health_checks import Health
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.containers.runtime_service import ContainerSecurity
from kubeskew.kubelet.containers.usage import demand_of
from kubeskew.kubelet.device_managers import ContainerDevices
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.pods.container_configs import container_config, sandbox_config
from kubeskew.kubelet.server.server import Listener, Routes
from kubeskew.kubelet.server.stats import NodeView
from kubeskew.kubelet.status.pod_status import View, pod_status
from kubeskew.kubelet.volumes.pod_volumes import MountedFiles


@pytest.fixture
async def bench(tmp_path):
    server = await open_server()
    clock = SystemClock()
    runtime = StreamingRuntime(tmp_path, "node-1", clock, SeededEntropy(2))
    features = KubeletFeatures.of(FeatureGates(Version(36)))
    pods: list[dict] = []

    view = NodeView("node-1", clock, runtime, lambda: pods, features, clock.now(), {})
    listener = Listener(Routes(view, Health(CollectorRegistry())), None, None)
    await listener.start("127.0.0.1", 0)
    api = Caller(server)
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": listener.port}},
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
    assert (await api.post("/api/v1/nodes", node)).status == 201
    assert (await api.patch("/api/v1/nodes/node-1/status", {"status": status})).status == 200
    for name, where in (("p", {"nodeName": "node-1"}), ("q", {})):
        spec = {"containers": CONTAINERS, "restartPolicy": "Never", **where}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        answer = await api.post(PODS, pod)
        assert answer.status == 201, answer.body
        if where:
            made = answer.body
    sandbox = await runtime.run_pod_sandbox(sandbox_config(made, tmp_path, "node-1", features))
    for spec in made["spec"]["containers"]:
        demand = demand_of(made, spec)
        config = container_config(
            *(made, spec, {}, ContainerDevices(), MountedFiles()),
            security=ContainerSecurity(),
            features=features.container,
            demand=demand,
        )
        await runtime.start_container(sandbox, config)
    now = clock.now()
    made["status"] = pod_status(made, sandbox, View(now, "127.0.0.1", "2026-01-01T00:00:00Z"), features)
    await api.patch(f"{PODS}/p/status", {"status": {"podIP": sandbox.ip, "podIPs": [{"ip": sandbox.ip}]}})
    pods.append(made)
    found = Bench(server, runtime, pods)
    yield found
    for task in found.tasks:
        task.cancel()
    await asyncio.gather(*found.tasks, return_exceptions=True)
    await listener.stop()
    await close_server(server)
