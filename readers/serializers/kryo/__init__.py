"""Kryo: values of classes that Flink has no serializer for, read into JSON trees.

Reading order:

    serializer.py    the serializer and its snapshot
    objects.py       the classes whose objects can be read
    collections.py   collections and maps
    times.py         dates and times
    reader.py        the frame around objects: classes, references, fields
    input.py         numbers and texts
    settings.py      registrations, and the fields and constants of classes
    classes.py       the classes that Kryo, chill and Flink know by themselves
"""
