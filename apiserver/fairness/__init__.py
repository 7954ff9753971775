"""API priority and fairness: requests wait in the queues of priority levels.

Source: k8s.io/apiserver/pkg/util/flowcontrol and pkg/apis/flowcontrol/bootstrap, 1.36.
"""
