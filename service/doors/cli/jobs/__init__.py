"""The commands about several checkpoints of a job.

follow.py   what each new checkpoint changes, as it comes
test.py     run the tests for state, once or over each new checkpoint
"""
