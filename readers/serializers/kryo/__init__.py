"""Kryo: values of classes that Flink has no serializer for: numbers, plain text, and JSON text of objects.

Reading order:

    serializer.py  the serializer and its snapshot
    plain.py       the classes whose values are numbers or plain text, dates and times among them
    objects.py     the classes whose objects can be read: collections, maps, and those written field by field
    reader.py      the frame around objects: classes, references, fields; numbers and texts
    settings.py    the classes that Kryo, chill and Flink know, and registrations, fields and constants from stateInfo and class files
"""
