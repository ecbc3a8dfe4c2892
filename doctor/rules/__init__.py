"""What a restore does with a change: one table of rules per family, with the restores and the classes of Flink that show each.

Reading order:

    rule.py           Rule: one line of the tables
    context.py        what a comparison knows beside two types; what it finds
    graph.py          operators, parallelism and `_metadata`: before any state is read
    states.py         names, kinds, keys, namespaces, TTL, timers
    types.py          composites, basic types, enums, own serializers
    assignment.py     which values Java can assign to a field
    pojo.py           POJOs and records
    kryo.py           Kryo, and Kryo 2 → 5
    avro.py           Avro
    avroschemas.py    whether one Avro schema reads data of another
    scala.py          case classes
    upgrade.py        what 2.x no longer has; SQL and CEP
    jar.py            what the code of a jar does not tell
    plans.py          what a plan or a stateInfo file does not tell
    samples.py        what a look at the first stored values tells
    values.py         what only stored values tell
    comparison.py     two type trees → the rules that they meet
"""
