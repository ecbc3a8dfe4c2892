"""`make bench-peers`: savepointdb beside Flink's own readers, on savepoints that real Flink wrote, in one run.

Reading order:

    __main__.py   writes the savepoints, measures, writes the report
    questions.py  the questions and the right answers
    sides.py      savepointdb, the State Processor API, the SQL connector; and the commands that run them
    flink.py      builds the Maven project beside this file, and writes the savepoints with it
    ours.py       one question to savepointdb, in a process of its own
    written.py    the content of the Parquet files that a side wrote
    process.py    a process, measured from outside
    figures.py    the measurements: kept as JSON, summed up as least, median and most
    targets.py    the targets of savepointdb, and whether it reaches them
    report.py     the figures as text, and in the README
    picture.py    the figures as SVG
"""
