"""The features of the controller manager: one table per controller."""

from kubeskew.apimachinery.features import FeatureTable, part
from kubeskew.controllers.autoscaling.features import AutoscalerFeatures
from kubeskew.controllers.cronjob.features import CronJobFeatures
from kubeskew.controllers.daemonset.features import DaemonSetFeatures
from kubeskew.controllers.deployment.features import DeploymentFeatures
from kubeskew.controllers.devicetaints.features import DeviceTaintFeatures
from kubeskew.controllers.disruption.features import DisruptionFeatures
from kubeskew.controllers.endpoints.features import EndpointsFeatures
from kubeskew.controllers.framework.features import DisruptionMarks
from kubeskew.controllers.garbagecollector.features import GarbageCollectorFeatures
from kubeskew.controllers.job.features import JobFeatures
from kubeskew.controllers.namespace.features import NamespaceFeatures
from kubeskew.controllers.poolstatus.features import PoolStatusFeatures
from kubeskew.controllers.replicaset.features import ReplicaSetFeatures
from kubeskew.controllers.resourceclaim.features import ResourceClaimFeatures
from kubeskew.controllers.resourcequota.features import QuotaFeatures
from kubeskew.controllers.servicecidrs.features import ServiceCIDRFeatures
from kubeskew.controllers.statefulset.features import StatefulSetFeatures
from kubeskew.controllers.storageversionmigration.features import MigrationFeatures


class ControllerFeatures(FeatureTable):
    """The tables of all controllers; each controller reads its own."""

    cron_jobs: CronJobFeatures = part(CronJobFeatures)
    daemon_sets: DaemonSetFeatures = part(DaemonSetFeatures)
    deployments: DeploymentFeatures = part(DeploymentFeatures)
    device_taints: DeviceTaintFeatures = part(DeviceTaintFeatures)
    disruption: DisruptionFeatures = part(DisruptionFeatures)
    disruption_marks: DisruptionMarks = part(DisruptionMarks)
    endpoints: EndpointsFeatures = part(EndpointsFeatures)
    garbage_collector: GarbageCollectorFeatures = part(GarbageCollectorFeatures)
    horizontal_pod_autoscalers: AutoscalerFeatures = part(AutoscalerFeatures)
    jobs: JobFeatures = part(JobFeatures)
    namespaces: NamespaceFeatures = part(NamespaceFeatures)
    pool_status: PoolStatusFeatures = part(PoolStatusFeatures)
    replica_sets: ReplicaSetFeatures = part(ReplicaSetFeatures)
    resource_claims: ResourceClaimFeatures = part(ResourceClaimFeatures)
    resource_quotas: QuotaFeatures = part(QuotaFeatures)
    service_cidrs: ServiceCIDRFeatures = part(ServiceCIDRFeatures)
    stateful_sets: StatefulSetFeatures = part(StatefulSetFeatures)
    storage_version_migrations: MigrationFeatures = part(MigrationFeatures)
