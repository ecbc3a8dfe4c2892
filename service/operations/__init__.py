"""What those who run a service see of it.

metrics.py   numbers for Prometheus
logs.py      structured logs, and the audit log: who asked what, without values
doctor.py    what an environment lacks
"""
