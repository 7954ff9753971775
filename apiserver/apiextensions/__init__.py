"""Serves CustomResourceDefinitions and the resources they define.

`table` reads definitions from the store and puts their resources, which `resource` makes, beside the built-in
ones; `validation` has the kind's own rules, `controllers` what keeps names, conditions and ends.
Source: k8s.io/apiextensions-apiserver, 1.36.
"""
