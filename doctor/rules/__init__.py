"""What a restore does with a change: one table of rules per family, with the restores and the classes of Flink that show each.

Reading order:

    rule.py     Rule: one line of the tables
    graph.py    operators, parallelism and `_metadata`: before any state is read
    table.py    all rules
"""
