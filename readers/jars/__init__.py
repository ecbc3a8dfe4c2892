"""Class files and jars: what the classes of a job say of its state. Nothing is loaded or run.

In reading order:

    classfiles/  class files and jars: fields, generic types, enums, records, code
    extraction/  Java types and class files → serializers, as Flink's `TypeExtractor` makes them
    jobclasses/  what the classes of a job's jars say of values that a savepoint does not describe
    declared/    states, types and uids that the byte code declares
"""
