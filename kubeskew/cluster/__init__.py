"""The local cluster: its processes, their versions and gates, planning and readiness."""
