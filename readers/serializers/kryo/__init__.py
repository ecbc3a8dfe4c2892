"""Kryo: values of classes that Flink has no serializer for: numbers, plain text, and JSON text of objects.

Reading order:

    trees.py         type trees that may have such a serializer
    versions.py      the versions of Kryo
    serializer.py    the serializer and its snapshot
    plain.py         the classes whose values are numbers or plain text
    objects.py       the classes whose objects can be read
    collections.py   collections and maps
    library.py       classes of the JDK and of Flink that are written field by field
    times.py         dates and times
    reader.py        the frame around objects: classes, references, fields
    input.py         numbers and texts
    settings.py      registrations, and the fields and constants of classes, from stateInfo and class files
    classes.py       the classes that Kryo, chill and Flink know by themselves
"""
