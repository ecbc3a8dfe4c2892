"""What the first stored values show that no snapshot describes: fields of classes, subclasses, stages of patterns.

In: some kilobytes of a state. Out: whether the objects of two savepoints can have been written by one and the same class.

    layouts.py  objects of Kryo and of subclasses of POJOs; the layouts that fit some of them; whether one class can read another's
    sample.py   the first values of a state
"""
