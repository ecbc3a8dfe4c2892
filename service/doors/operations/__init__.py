"""Operation of a service: metrics, logs, checks of the environment, the release.

Modules:

    metrics.py   numbers for Prometheus
    logs.py      structured logs, and the audit log: the users' queries without values
    doctor.py    checks of the environment
    release.py   the text of `savepointdb --version`
"""
