"""Jobs: which savepoints and checkpoints one job wrote, and their history as tables.

Reading order:

    facts.py        JobFacts: what a cluster of Flink says of a job and its checkpoints
    history.py      Job: the databases of one job, by their paths alone; HistoryDatabase, HistoryTable: the tables of all its checkpoints
"""
