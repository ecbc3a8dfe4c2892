"""Class files and jars: the classes of a job, read and never loaded or run.

In: paths of jars. Out: `ClassFile`s by the names of their classes. Everything is bounded: a jar comes from a user.

    constantpool.py  the constants of a class file
    signatures.py    generic types, from descriptors and signatures
    classfile.py     one class: fields, methods with their code, enum constants, components of records, annotations
    jar.py           a jar: its central directory, and the bytes of its entries
    classpath.py     `ClassPath`: several jars; finds classes by their names
"""
