"""The checkpoints of a job and a query → the first checkpoint for which the query returns a row.

Reading order:

    search.py     which checkpoint to ask next
    singlerows.py queries that have a row for every checkpoint
    bisection.py  the checkpoints of one job; each question and its answer
"""
