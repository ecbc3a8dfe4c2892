"""What the first stored values show that no snapshot describes: fields of classes, subclasses, stages of patterns.

In: some kilobytes of a state. Out: whether the objects of two savepoints can have been written by one and the same class.

    layouts.py  layouts of fields that fit some objects; whether the class of one savepoint can read the objects of another
    kryo.py     objects of Kryo, and the layouts of their fields
    pojo.py     objects of subclasses of POJOs, and the layouts of their fields
    sample.py   the first values of a state
"""
