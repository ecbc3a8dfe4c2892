"""What a restore does with a change: one table of rules per family, with the restores and the classes of Flink that show each.

Reading order:

    rule.py           Rule: one line of the tables; what a comparison knows beside two types, and what it finds
    states.py         operators, parallelism and `_metadata`; names, kinds, keys, namespaces, TTL, timers
    types.py          composites, basic types, enums, own serializers, case classes
    pojo.py           POJOs and records, and which values Java can assign to a field
    kryo.py           Kryo, and Kryo 2 → 5
    avro.py           Avro, and whether one schema reads data of another
    upgrade.py        what 2.x no longer has; SQL and CEP
    untold.py         what a jar, a plan or a stateInfo file does not tell; what stored values tell
"""
