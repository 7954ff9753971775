// What a program sees that uses @kubernetes/client-node: one line of JSON per step.
//   node session.mjs CLIENT_DIRECTORY KUBECONFIG NAMESPACE
import path from 'node:path';
import { Writable } from 'node:stream';
import { pathToFileURL } from 'node:url';

const [directory, kubeconfig, namespace] = process.argv.slice(2);
const entry = path.join(path.resolve(directory), 'node_modules/@kubernetes/client-node/dist/index.js');
const k8s = await import(pathToFileURL(entry));
const config = new k8s.KubeConfig();
config.loadFromFile(kubeconfig);
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const as = (type) => k8s.setHeaderOptions('Content-Type', type);
const tell = (step, seen) => console.log(JSON.stringify([step, seen]));
const failure = async (call) => {
  try {
    await call;
  } catch (error) {
    return [error.code, JSON.parse(error.body).reason];
  }
  return [];
};

tell('version', (await config.makeApiClient(k8s.VersionApi).getCode()).minor);

await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'a' }, data: { k: '1' } } });
const got = await core.readNamespacedConfigMap({ name: 'a', namespace });
tell('read', [got.data, got.metadata.creationTimestamp instanceof Date]);
tell('twice', await failure(core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'a' } } })));
tell('missing', await failure(core.readNamespacedConfigMap({ name: 'none', namespace })));

const merged = await core.patchNamespacedConfigMap(
  { name: 'a', namespace, body: { data: { l: '2' } } }, as(k8s.PatchStrategy.MergePatch));
tell('merged', merged.data);
const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'b' }, data: { k: '3' } };
const applied = await core.patchNamespacedConfigMap(
  { name: 'b', namespace, fieldManager: 'js', body }, as(k8s.PatchStrategy.ServerSideApply));
tell('applied', applied.metadata.managedFields.map((one) => [one.manager, one.operation]));
const stolen = core.patchNamespacedConfigMap(
  { name: 'b', namespace, fieldManager: 'other', body: { ...body, data: { k: '4' } } },
  as(k8s.PatchStrategy.ServerSideApply));
tell('conflict', await failure(stolen));

const seen = [];
const watch = new k8s.Watch(config);
await new Promise((resolve, reject) => {
  const stop = watch.watch(`/api/v1/namespaces/${namespace}/configmaps`, { labelSelector: 'w=1' }, (type) => {
    seen.push(type);
    if (type === 'DELETED') stop.then((one) => one.abort());
  }, () => resolve());
  stop.then(async () => {
    await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'w', labels: { w: '1' } } } });
    await core.patchNamespacedConfigMap(
      { name: 'w', namespace, body: { metadata: { labels: { w: null } } } }, as(k8s.PatchStrategy.MergePatch));
    await core.deleteNamespacedConfigMap({ name: 'w', namespace });
  }).catch(reject);
});
tell('watched', seen);

const listed = () => core.listNamespacedConfigMap({ namespace });
const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, listed);
await informer.start();
const own = (name) => ['a', 'b'].includes(name);
tell('informed', informer.list().map((one) => one.metadata.name).filter(own).sort());
await informer.stop();

const labels = { app: 'web' };
const template = { metadata: { labels }, spec: { containers: [{ name: 'c', image: 'img' }] } };
const spec = { replicas: 1, selector: { matchLabels: labels }, template };
await apps.createNamespacedDeployment({ namespace, body: { metadata: { name: 'web' }, spec } });
const scale = { metadata: { name: 'web', namespace }, spec: { replicas: 2 } };
const scaled = await apps.replaceNamespacedDeploymentScale({ name: 'web', namespace, body: scale });
tell('scaled', scaled.spec.replicas);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);
const found = await objects.read({ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'web', namespace } });
tell('discovered', found.spec.replicas);

let pods = [];
while (pods.filter((pod) => pod.status.phase === 'Running').length < 2) {
  pods = (await core.listNamespacedPod({ namespace, labelSelector: 'app=web' })).items;
}
const page = await core.listNamespacedPod({ namespace, limit: 1 });
tell('paged', [page.items.length, Boolean(page.metadata._continue), page.metadata.remainingItemCount]);

let output = '';
const sink = new Writable({ write(chunk, _encoding, done) { output += chunk; done(); } });
const status = await new Promise((resolve, reject) => {
  const command = ['echo', 'hello'];
  new k8s.Exec(config).exec(namespace, pods[0].metadata.name, 'c', command, sink, sink, null, false, resolve)
    .catch(reject);
});
tell('executed', [status.status, output]);
process.exit(0);
