"""The classes of jars, as the rules ask for them: what the class files say, and where that ends."""

from __future__ import annotations

from contextlib import suppress

from readers import OBJECT, ClassFile, ClassPath, Hierarchy, ReaderError, UnknownTypeError, type_of

_MAX_SUPERCLASSES = 64
_PLATFORM = ("java.", "javax.")
# Classes that the cluster has, or may have, without the jar.
_CLUSTER = ("org.apache.flink.", "org.apache.avro.", "scala.")


class JarClasses:
    """The classes of jars.

    Args:
        classes: the jars.
    """

    def __init__(self, classes: ClassPath) -> None:
        self._classes = classes
        self._hierarchy = Hierarchy(classes)
        self._packages = frozenset(name.rpartition(".")[0] for name in classes)

    def has(self, name: str) -> bool | None:
        """Return whether a class is there, by its binary name; None if that cannot be told."""
        if name in self._classes or name.startswith(_PLATFORM):
            return True
        if name.startswith(_CLUSTER):
            return None
        # Of a package of which nothing is in the jar, all of it may be elsewhere on the class path.
        return False if name.rpartition(".")[0] in self._packages else None

    def owner(self, name: str, field: str) -> str | None:
        """Return which class has a field, static and transient ones too: this one, or the next superclass that has it.

        Empty if none has it, None if that cannot be told.
        """
        if self.has(name) is False:
            return ""
        for _ in range(_MAX_SUPERCLASSES):
            found = self._find(name)
            if found is None:
                return "" if name == OBJECT else None
            if any(each.name == field for each in found.fields):
                return name
            name = found.super_name or OBJECT
        return None

    def declared_class(self, name: str, field: str) -> str | None:
        """Return the class, or the primitive, of a field that a class declares, as Java sees it; None if that cannot be told."""
        found = self._find(name)
        declared = [each for each in found.fields if each.name == field] if found is not None else []
        # Java assigns by the descriptor: what a type parameter stands for is not in it.
        with suppress(ValueError):
            return type_of(declared[0].descriptor).class_name if declared else None
        return None

    def constructs(self, name: str) -> bool | None:
        """Return whether a class is public and has a public constructor without parameters; None if that cannot be told."""
        found = self._find(name)
        if found is None:
            return None
        return found.is_public and any(
            each.name == "<init>" and each.descriptor == "()V" and each.is_public for each in found.methods
        )

    def extends(self, name: str, ancestor: str) -> bool | None:
        """Return whether a class extends or implements another one; None if that cannot be told."""
        if not self._packages:
            return None
        with suppress(UnknownTypeError):
            return self._hierarchy.is_a(name, ancestor)
        return None

    def components(self, name: str) -> tuple[str, ...] | None:
        """Return the names of the components of a record, in order; None if it is none, or that cannot be told."""
        found = self._find(name)
        if found is None or found.record_components is None:
            return None
        return tuple(component.name for component in found.record_components)

    def constants(self, name: str) -> tuple[str, ...] | None:
        """Return the constants of an enum, in order; None if it is none, or that cannot be told."""
        found = self._find(name)
        return found.enum_constants if found is not None and found.is_enum else None

    def _find(self, name: str) -> ClassFile | None:
        with suppress(ReaderError):
            return self._classes.find(name)
        return None


NO_JAR = JarClasses(ClassPath(()))
"""The classes of a job of which no jar is given: next to nothing can be told."""
