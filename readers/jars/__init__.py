"""Class files and jars: what the classes of a job say of its state. Nothing is loaded or run.

In reading order:

    classfiles/  class files and jars: fields, generic types, enums, records, code
    extraction/  Java types and class files → serializers, as Flink's `TypeExtractor` makes them
    jobclasses/  what the classes of a job's jars say of values that a savepoint does not describe
    declared/    states, types and uids that the byte code declares

Class files and jars: the classes of a job, read and never loaded or run.

In: paths of jars. Out: `ClassFile`s by the names of their classes. Everything is bounded: a jar comes from a user.

    constantpool.py  the constants of a class file
    signatures.py    generic types, from descriptors and signatures
    classfile.py     one class: fields, methods with their code, enum constants, components of records, annotations
    jar.py           a jar: its central directory, and the bytes of its entries
    classpath.py     `ClassPath`: several jars; finds classes by their names

Flink's `TypeExtractor`: a Java type, and the classes of a jar → the serializer that a fresh job has for it.

In: a `ClassPath` and a generic type. Out: the type tree that the headers of this job's savepoints would describe, with the
reasons why classes are no POJOs; or why it cannot be told. Reading order:

    basictypes.py  types that Flink knows by their names
    hierarchy.py   supertypes of classes, in the jars and of those that are in no jar
    pojo.py        the fields of a class, and why it is no POJO
    avroschemas.py schemas of classes that Avro writes
    extractor.py   `TypeExtractor`
"""

from __future__ import annotations
