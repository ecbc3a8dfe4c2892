"""Use cases over the checkpoints of a job: what was when, what changed, and which checkpoints break a rule.

history.py  what each state of a job has of a key in each checkpoint
bisect.py   the checkpoints of a job and a query → the first one with a row
diff/       what differs between two savepoints: counts, samples, texts
test/       rules and savepoints → which rules hold
"""
