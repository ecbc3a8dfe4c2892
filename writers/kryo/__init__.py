"""Objects of Kryo 2.24 (Flink 1.x), written anew: as Kryo 5 (Flink 2.x) writes them, or as values of other serializers.

targets.py     types of Flink 1.x → those that Flink 2.x needs
typed.py       objects → values of columns
upgrade.py     values of Kryo 2 → values of Kryo 5
objects.py     objects with their classes, and the frame around them
bodies.py      the classes that are known both ways
times.py       dates and times
output.py      numbers and texts
"""
