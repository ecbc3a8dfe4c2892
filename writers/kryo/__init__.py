"""Objects of Kryo 2.24 (Flink 1.x), written anew: as Kryo 5 (Flink 2.x) writes them, or as values of other serializers.

upgrade.py     values of Kryo 2 → values of Kryo 5, or of columns; the types that Flink 2.x needs
objects.py     objects with their classes, and the frame around them; numbers, texts, dates and times
bodies.py      the classes that are known both ways
"""
