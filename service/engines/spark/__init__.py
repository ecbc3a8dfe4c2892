"""Spark, on a cluster or on this machine."""
