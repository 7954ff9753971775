"""Measures the usage that quotas limit: evaluators per resource, and scopes.

Pure functions of objects, used by the API server's admission and by the quota controller.
`registry.Evaluators` finds the evaluator of a resource; the admission plugin's `quota_evaluator.check`
decides a request.

Source: k8s.io/apiserver/pkg/quota/v1 and k8s.io/kubernetes/pkg/quota/v1/evaluator/core, 1.36.
"""
