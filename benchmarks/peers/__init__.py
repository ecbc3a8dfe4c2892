"""`make bench-peers`: savepointdb beside Flink's own readers, on savepoints that real Flink wrote, in one run.

Reading order:

    questions.py  what is asked, and the answers that are right
    sides.py      who answers: savepointdb, the State Processor API, the SQL connector; and the command that asks them
    flink.py      the Maven project beside this file: builds it, and writes the savepoints with it
    ours.py       one question to savepointdb, in a process of its own
    written.py    what the Parquet files hold that a side wrote
    process.py    a process, measured from outside
    figures.py    what was measured: kept as JSON, summed up as least, median and most
    targets.py    what savepointdb is to reach, and whether it does
    report.py     the figures as text, and in the README
    picture.py    the figures as SVG
"""
