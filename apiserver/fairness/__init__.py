"""Decides which requests wait for which: API priority and fairness.

Source: k8s.io/apiserver/pkg/util/flowcontrol and pkg/apis/flowcontrol/bootstrap, 1.36.
"""
