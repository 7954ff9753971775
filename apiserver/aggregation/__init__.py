"""Group versions that another server answers for, by an APIService.

Source: k8s.io/kube-aggregator/pkg/apiserver and pkg/controllers, 1.36.
"""
