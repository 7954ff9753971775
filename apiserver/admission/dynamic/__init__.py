"""Webhooks and policies, the admission that objects configure, share these modules.

`matching` decides whether a request concerns a webhook or a policy, and shows the objects in the version that
it asked for; `conditions` and `expressions` evaluate CEL.
"""
