"""Jobs: which savepoints and checkpoints one job wrote, and their history as tables.

Reading order:

    facts.py        JobFacts: what a cluster of Flink says of a job and its checkpoints
    grouping.py     Job: the databases of one job, by their paths alone
    historytable.py HistoryTable: one table in all checkpoints of a job
    history.py      HistoryDatabase: the tables of all checkpoints of a job
"""
