"""Benchmarks: `python -m benchmarks` (`make bench`). Timings live here, never in tests."""
