"""The commands about several checkpoints of a job.

history.py  show what a key was in each checkpoint
test.py     run the tests for state, once or over each new checkpoint
"""
