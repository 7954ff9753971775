"""The keys that Chainsaw's Test has, by where they stand, and what to write for those that are not done here.

What is done is what conformance/grammar.py takes: the table of docs/chainsaw.md is the difference.
Source: kyverno/chainsaw, pkg/apis/v1alpha1 (test.go, step.go, operation.go, action.go).
"""

from collections.abc import Mapping, Sequence

_CLUSTERS = ("cluster", "clusters")
_WRITING = ("resource", "file", "expect", "outputs", "bindings", "template", "dryRun", "timeout", *_CLUSTERS)
_LOOKING = ("resource", "file", "bindings", "template", "timeout", *_CLUSTERS)
_RUNNING = (
    *("env", "check", "outputs", "bindings", "skipLogOutput", "skipCommandOutput", "workDir", "timeout"),
    *_CLUSTERS,
)
_SELECTING = ("name", "namespace", "selector", "timeout", *_CLUSTERS)
_KINDED = ("apiVersion", "kind")

# By where they stand; operations by their names.
KEYS: Mapping[str, Sequence[str]] = {
    "Test": (
        *("description", "steps", "bindings", "timeouts", "catch", "namespace", "concurrent", "skipDelete"),
        *("template", "fastNamespaceDeletion", "failFast", "skip", "scenarios", "namespaceTemplate"),
        *("namespaceTemplateCompiler", "compiler", "delayBeforeCleanup", "deletionPropagationPolicy"),
        *("forceTerminationGracePeriod", *_CLUSTERS),
    ),
    "step": (
        *("name", "description", "bindings", "timeouts", "try", "catch", "finally", "cleanup"),
        *("template", "skipDelete", "use", "compiler", "deletionPropagationPolicy", *_CLUSTERS),
    ),
    "beside an operation": ("description", "continueOnError", "compiler"),
    "apply": _WRITING,
    "create": _WRITING,
    "update": _WRITING,
    "patch": (*_WRITING, "subresource"),
    "delete": (
        *("ref", "file", "expect", "bindings", "template", "deletionPropagationPolicy", "timeout"),
        *_CLUSTERS,
    ),
    "assert": _LOOKING,
    "error": _LOOKING,
    "script": ("content", "shell", "shellArgs", *_RUNNING),
    "command": ("entrypoint", "args", *_RUNNING),
    "sleep": ("duration",),
    "wait": (*_KINDED, "for", "format", *_SELECTING),
    "get": (*_KINDED, "format", *_SELECTING),
    "describe": (*_KINDED, "showEvents", *_SELECTING),
    "events": ("format", *_SELECTING),
    "podLogs": ("container", "tail", *_SELECTING),
    "proxy": (*_KINDED, "name", "namespace", "port", "path", "outputs", "timeout", *_CLUSTERS),
    "bindings": ("name", "value", "compiler"),
    "outputs": ("name", "value", "match", "compiler"),
    "expect": ("match", "check"),
}

# What to write instead of what is not done.
INSTEAD: Mapping[str, str] = {
    "cluster": "name a context of the kubeconfig by `through` beside the operation",
    "clusters": "name a context of the kubeconfig by `through` beside the operation",
    "compiler": "write JMESPath, which is what an expression is without it",
    "delayBeforeCleanup": "write a `sleep` in `cleanup`",
    "deletionPropagationPolicy": "write it in the `delete`",
    "dryRun": "write a `script` with `kubectl --dry-run=server`",
    "failFast": "choose cells by `--only`",
    "forceTerminationGracePeriod": "write `gracePeriodSeconds` in the `delete`",
    "namespaceTemplate": "write a `patch` of the Namespace",
    "namespaceTemplateCompiler": "write a `patch` of the Namespace",
    "proxy": "write a `script` with `kubectl get --raw`",
    "scenarios": "write `parameters` in a header, which make a cell for each value",
    "skip": "choose cells by `--only`",
    "skipDelete": "write it in the Test's `spec`",
    "use": "write the steps out, or repeat them by `forEach`",
}

# Bindings that Chainsaw has and nothing here has, and what to write instead.
BINDINGS: Mapping[str, str] = {
    "values": "write `bindings`",
    "client": "write an `assert`",
    "config": "write a `script`, which has $KUBECONFIG",
    "test": "write its name",
    "step": "write its number",
    "operation": "write `outputs` with a `match`",
}
