"""Short statements: columns and conditions of one table, which a scan answers without an engine.

    SELECT key, value AS v FROM "chk-41".aggregate WHERE key = 'key_662' AND value > 5 LIMIT 3

Most statements of programs are such: they look up keys. To parse, check, bind and run one in an engine takes twenty times as
long as to read the key.

    grammar.py   a text → its parts, if it is such a statement for certain
    planning.py  these parts → a plan, if a scan answers it for certain as the engine would
"""
