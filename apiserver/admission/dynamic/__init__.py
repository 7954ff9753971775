"""Admission that is configured by objects: webhooks and policies, and what both share.

`matching` decides whether a request concerns a webhook or a policy, `versions` shows the objects in the
version that it asked for, `reviews` writes and reads AdmissionReviews.
"""
