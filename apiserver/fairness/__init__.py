"""API priority and fairness: which requests wait for which.

Source: k8s.io/apiserver/pkg/util/flowcontrol and pkg/apis/flowcontrol/bootstrap, 1.36.
"""
