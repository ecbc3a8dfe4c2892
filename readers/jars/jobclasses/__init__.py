"""The classes of a job's jars, as far as they say how values are laid out that a savepoint does not describe.

In: jars. Out: the fields of classes whose objects Kryo wrote, and the serializers of subclasses of POJOs. A value is decoded
by them only if its bytes fit to their end.

    kryoclasses.py  what Kryo makes of a class: fields, type variables, constants, collections
    subclasses.py   subclasses of POJOs
    jobclasses.py   `JobClasses`: the jars, opened
"""
