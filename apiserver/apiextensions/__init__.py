"""Serves CustomResourceDefinitions and the resources they define.

`table` reads definitions from the store and adds their resources, which `resource` builds, to the built-in
ones; `validation` has the kind's own rules; `controllers` keeps names and conditions, and deletes objects
with their definition.

Source: k8s.io/apiextensions-apiserver, 1.36.
"""
