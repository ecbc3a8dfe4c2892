"""Class files and jars: what the classes of a job say of its state. Nothing is loaded or run.

In: paths of jars. Out: `ClassFile`s by the names of their classes, the type trees that a fresh job would have, and what the byte code
declares. Everything is bounded: a jar comes from a user. Reading order:

    signatures.py   generic types, from descriptors and signatures
    classfile.py    one class: constants, fields, methods with their code, enum constants, components of records, annotations
    classpath.py    `Jar` and `ClassPath`: the entries of a jar; the classes of several jars, found by their names
    pojos.py        types that Flink knows by their names, supertypes, and why a class is no POJO
    extractor.py    `TypeExtractor`: a Java type → the serializer that a fresh job has for it
    kryoclasses.py  what Kryo makes of a class: fields, type variables, constants, collections
    jobclasses.py   `JobClasses`: the jars of a job, opened, and the subclasses of POJOs in them
    declared/       states, types and uids that the byte code declares
"""

from __future__ import annotations
