"""The page `/configz`: a kubelet's configuration, most of it upstream's defaults.

Sources: pkg/kubelet/apis/config/v1beta1/defaults.go, 1.26 to 1.36;
cmd/kubelet/app/server.go (setConfigz).
"""

from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.network_agent import DNS_ADDRESS
from kubeskew.kubelet.features import ConfigurationFeatures

_BUFFER = {"infoBufferSize": "0"}
_DEFAULTS: Mapping[str, Any] = {
    "enableServer": True,
    "syncFrequency": "1m0s",
    "fileCheckFrequency": "20s",
    "httpCheckFrequency": "20s",
    "address": "0.0.0.0",  # noqa: S104
    "port": 10250,
    "authentication": {
        "x509": {},
        "webhook": {"enabled": True, "cacheTTL": "2m0s"},
        "anonymous": {"enabled": False},
    },
    "authorization": {
        "mode": "Webhook",
        "webhook": {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"},
    },
    "registryPullQPS": 5,
    "registryBurst": 10,
    "eventRecordQPS": 50,
    "eventBurst": 100,
    "enableDebuggingHandlers": True,
    "healthzPort": 10248,
    "healthzBindAddress": "127.0.0.1",
    "oomScoreAdj": -999,
    "clusterDomain": "cluster.local",
    "clusterDNS": [DNS_ADDRESS],
    "streamingConnectionIdleTimeout": "4h0m0s",
    "nodeStatusUpdateFrequency": "10s",
    "nodeStatusReportFrequency": "5m0s",
    "nodeLeaseDurationSeconds": 40,
    "imageMinimumGCAge": "2m0s",
    "imageGCHighThresholdPercent": 85,
    "imageGCLowThresholdPercent": 80,
    "volumeStatsAggPeriod": "1m0s",
    "cgroupsPerQOS": True,
    "cgroupDriver": "cgroupfs",
    "cpuManagerPolicy": "none",
    "cpuManagerReconcilePeriod": "10s",
    "memoryManagerPolicy": "None",
    "topologyManagerPolicy": "none",
    "topologyManagerScope": "container",
    "runtimeRequestTimeout": "2m0s",
    "hairpinMode": "promiscuous-bridge",
    "maxPods": 110,
    "podPidsLimit": -1,
    "resolvConf": "/etc/resolv.conf",
    "cpuCFSQuota": True,
    "cpuCFSQuotaPeriod": "100ms",
    "nodeStatusMaxImages": 50,
    "maxOpenFiles": 1000000,
    "contentType": "application/vnd.kubernetes.protobuf",
    "kubeAPIQPS": 50,
    "kubeAPIBurst": 100,
    "serializeImagePulls": True,
    "evictionHard": {
        "imagefs.available": "15%",
        "imagefs.inodesFree": "5%",
        "memory.available": "100Mi",
        "nodefs.available": "10%",
        "nodefs.inodesFree": "5%",
    },
    "evictionPressureTransitionPeriod": "5m0s",
    "enableControllerAttachDetach": True,
    "makeIPTablesUtilChains": True,
    "iptablesMasqueradeBit": 14,
    "iptablesDropBit": 15,
    "failSwapOn": True,
    "memorySwap": {},
    "containerLogMaxSize": "10Mi",
    "containerLogMaxFiles": 5,
    "configMapAndSecretChangeDetectionStrategy": "Watch",
    "enforceNodeAllocatable": ["pods"],
    "volumePluginDir": "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
    "logging": {
        "format": "text",
        "flushFrequency": "5s",
        "verbosity": 0,
        "options": {"text": _BUFFER, "json": _BUFFER},
    },
    "enableSystemLogHandler": True,
    "shutdownGracePeriod": "0s",
    "shutdownGracePeriodCriticalPods": "0s",
    "enableProfilingHandler": True,
    "enableDebugFlagsHandler": True,
    "seccompDefault": False,
    "registerNode": True,
    "localStorageCapacityIsolation": True,
    "memoryThrottlingFactor": 0.9,
}
_ENDPOINT = "containerRuntimeEndpoint"
# Up to 1.26 kubelets asked the API server less often, and slowed memory down sooner.
_LOWER_LIMITS = {
    "eventRecordQPS": 5, "eventBurst": 10, "kubeAPIQPS": 5, "kubeAPIBurst": 10,
    "memoryThrottlingFactor": 0.8,
}  # fmt: skip


def kubelet_configuration(features: ConfigurationFeatures, settings: Mapping[str, Any]) -> Object:
    """A KubeletConfiguration with the defaults of the release and the settings of one node."""
    found: Object = {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        **_DEFAULTS,
    }
    if not features.higher_limits:
        found |= _LOWER_LIMITS
    if features.names_runtime_endpoint:
        found[_ENDPOINT] = "unix:///run/containerd/containerd.sock"
    if features.limits_age_of_images:
        found["imageMaximumGCAge"] = "0s"
    if features.follows_logs:
        found |= {
            "podLogsDir": "/var/log/pods",
            "containerLogMaxWorkers": 1,
            "containerLogMonitorInterval": "10s",
        }
    if features.fails_on_cgroup_v1 is not None:
        found["failCgroupV1"] = features.fails_on_cgroup_v1
    if features.configures_back_off:
        period = {"maxContainerRestartPeriod": "5m0s"} if features.limits_back_off else {}
        found["crashLoopBackOff"] = period
    if features.merges_eviction_settings:
        found["mergeDefaultEvictionSettings"] = False
    if features.verifies_pulled_images:
        found["imagePullCredentialsVerificationPolicy"] = "NeverVerifyPreloadedImages"
    if features.reserves_memory:
        found["memoryReservationPolicy"] = "None"
    found |= settings
    if not features.names_runtime_endpoint:  # a flag alone names it
        found.pop(_ENDPOINT, None)
    return found
