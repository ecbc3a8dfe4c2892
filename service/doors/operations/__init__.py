"""Operation of a service: metrics, logs, the release.

Modules:

    metrics.py   numbers for Prometheus
    logs.py      structured logs, and the audit log: the users' queries without values
    release.py   the text of `savepointdb --version`
"""
