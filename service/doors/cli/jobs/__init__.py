"""The commands about several checkpoints of a job.

test.py     run the tests for state, once or over each new checkpoint
"""
