"""Flink's `TypeExtractor`: a Java type, and the classes of a jar → the serializer that a fresh job has for it.

In: a `ClassPath` and a generic type. Out: the type tree that the headers of this job's savepoints would describe, with the
reasons why classes are no POJOs; or why it cannot be told. Reading order:

    basictypes.py  types that Flink knows by their names
    hierarchy.py   supertypes of classes, in the jars and of those that are in no jar
    pojo.py        the fields of a class, and why it is no POJO
    avroschemas.py schemas of classes that Avro writes
    extractor.py   `TypeExtractor`
"""
