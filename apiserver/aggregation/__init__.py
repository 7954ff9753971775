"""Serves group versions by other servers, as APIServices say.

Source: k8s.io/kube-aggregator/pkg/apiserver and pkg/controllers, 1.36.
"""
