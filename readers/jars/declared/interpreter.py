"""`Interpreter`: the code of methods → the calls in it, with abstract values as arguments.

Each method is read once, from its first instruction to its last. Where ways meet, only what they agree on is kept; variables that a
loop changes are unknown in it. A method of the jar that is called is interpreted with the arguments of the call.

Code comes from a user, so all work is counted: an instruction is one unit, and whatever a single instruction makes long (a state that is
copied or merged, a text that is kept, a table of jumps) adds what takes as long. When the units are used up, nothing more is
interpreted, and the report says that code was not looked at.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from readers.errors import ReaderError
from readers.jars.classfile import ClassConstant, ClassFile, ClassMethod, Member
from readers.jars.classpath import ClassPath
from readers.jars.declared import opcodes
from readers.jars.declared.values import (
    ANYTHING,
    PARAMETER,
    ArrayValue,
    Call,
    ClassValue,
    Constant,
    Instance,
    Lambda,
    StaticField,
    Unknown,
    Value,
    constant_of,
    is_wide,
    merged,
    number_of,
)
from readers.jars.signatures import method_signature

_MAX_WORK = 600_000  # of one jar: a second
_MAX_METHOD = 20_000  # instructions of one method that are looked at
_MAX_DEPTH = 6  # methods that call each other
_MAX_STACK = 4096
# Divisors: how many elements take as long, or as much memory, as an instruction.
_ELEMENTS, _CHARACTERS = 16, 128
_CALL = 2  # units that a call costs besides
_MAX_TEXTS = 200_000  # of all classes that are interpreted
_MAX_CHARACTERS = 8 << 20  # of these
_METAFACTORY = "java.lang.invoke.LambdaMetafactory"


@dataclass(slots=True)
class _State:
    """Stack and local variables at one instruction."""

    stack: list[Value]
    variables: dict[int, Value]

    @property
    def work(self) -> int:
        """The units that it costs to copy or merge it; a dictionary takes four times the memory of a list."""
        return 1 + (len(self.stack) + 4 * len(self.variables)) // _ELEMENTS

    def copy(self) -> _State:
        return _State(list(self.stack), dict(self.variables))

    def merge(self, other: _State) -> None:
        if len(self.stack) == len(other.stack):
            self.stack = [merged(*pair) for pair in zip(self.stack, other.stack, strict=True)]
        self.variables = {
            index: merged(value, other.variables[index])
            for index, value in self.variables.items()
            if index in other.variables
        }

    def pop(self) -> Value:
        # Damaged code may take more than there is.
        return self.stack.pop() if self.stack else ANYTHING

    def take(self, count: int) -> list[Value]:
        return [self.pop() for _ in range(count)][::-1]

    def push(self, *values: Value) -> None:
        # No code that a JVM accepts has more.
        self.stack += values[: _MAX_STACK - len(self.stack)]


@dataclass(slots=True)
class Interpreter:
    """What the code of some classes does.

    Attributes:
        classes: the jars.
        calls: the calls that were found, in the order of the code.
        made: the objects that were made, in the order of the code.
        returned: class and method → what it returns, of methods without parameters.
        texts: all texts in the classes.
        is_complete: False if the code was too long to look at all of it.
    """

    classes: ClassPath
    calls: list[Call] = field(default_factory=list)
    made: list[tuple[Instance, str]] = field(default_factory=list)
    returned: dict[tuple[str, str, str], Value] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)
    is_complete: bool = True
    _fields: dict[tuple[str, str], Value] = field(default_factory=dict)
    _initialized: set[str] = field(default_factory=set)
    _work: int = 0
    _characters: int = 0

    def interpret(self, names: Iterable[str]) -> None:
        """Interpret all methods of some classes; those that are damaged are passed over."""
        found = list(names)
        # What constructors and static code put into fields is known to the methods that read them.
        for is_again in (False, True):
            self.calls.clear()
            self.made.clear()
            for name in found:
                # When nothing more is interpreted, nothing more is parsed.
                read = self._find(name) if self.count(0) else None
                if read is None:
                    continue
                if not is_again:
                    self.texts.update(self._kept(read))
                self._interpret_class(read)

    def _find(self, name: str) -> ClassFile | None:
        try:
            return self.classes.find(name)
        except ReaderError:
            self.is_complete = False
            return None

    def _kept(self, found: ClassFile) -> list[str]:
        """Return the texts of a class, within what is kept of one jar."""
        try:
            texts = found.constants.texts()
        except ReaderError:
            self.is_complete = False
            return []
        self._characters += sum(map(len, texts))
        fits = len(self.texts) + len(texts) <= _MAX_TEXTS and self._characters <= _MAX_CHARACTERS
        self.is_complete = self.is_complete and fits
        return texts if fits else []

    def interpret_more(self, name: str) -> None:
        """Interpret the methods of one more class for what they return; the calls in them are not kept."""
        if not self.count(len(self.returned) // _ELEMENTS):
            return
        if any(owner == name for owner, _, _ in self.returned):
            return
        found = self._find(name)
        if found is not None:
            calls, made = list(self.calls), list(self.made)
            self._interpret_class(found)
            self.calls[:], self.made[:] = calls, made

    def _interpret_class(self, found: ClassFile) -> None:
        for method in sorted(found.methods, key=lambda method: not method.name.startswith("<")):
            if not self.count(1 + _work_of(method.descriptor)):
                return
            value = self._run(found, method, self._parameters(found, method), 0)
            if value is not None:
                self.returned[found.name, method.name, method.descriptor] = value

    def _parameters(self, found: ClassFile, method: ClassMethod) -> list[Value]:
        try:
            types = method_signature(method.descriptor).parameters
        except ReaderError:
            return []
        own: list[Value] = [] if method.is_static else [Unknown(f"L{found.name};")]
        return own + [
            Unknown(_letter(each.name) if each.kind == "primitive" else PARAMETER) for each in types
        ]

    def _run(
        self,
        found: ClassFile,
        method: ClassMethod,
        arguments: list[Value],
        depth: int,
        *,
        is_conditional: bool = False,
    ) -> Value | None:
        """Interpret one method and return what it returns; None for nothing."""
        if method.code is None or depth > _MAX_DEPTH:
            return None
        # The handlers' states, and the name that each call in it gets.
        handlers, name = len(method.code.handlers), len(found.name) + len(method.name)
        if not self.count(handlers // 4 + name // _CHARACTERS):
            return None
        try:
            return _Frame(self, found, method, depth, is_conditional=is_conditional).run(arguments)
        except (ReaderError, IndexError):
            self.is_complete = False
            return None

    def count(self, work: int) -> bool:
        """Count units of work and return whether more may be done."""
        self._work += work
        if self._work > _MAX_WORK:
            self.is_complete = False
        return self._work <= _MAX_WORK

    def store(self, owner: str, name: str, value: Value) -> None:
        """Note what is put into a field."""
        known = self._fields.get((owner, name))
        self._fields[owner, name] = value if known is None else _alike(known, value)

    def load(self, member: Member, depth: int) -> Value | None:
        """Return what is in a field; None if nothing was put into it."""
        # Static code may need that of another class, and so on.
        if depth < _MAX_DEPTH and member.owner not in self._initialized:
            self._initialized.add(member.owner)
            self._initialize(member.owner, depth + 1)
        return self._fields.get((member.owner, member.name))

    def _initialize(self, name: str, depth: int) -> None:
        """Interpret the static code of a class of the jar."""
        found = self._find(name)
        method = found.method("<clinit>", "()V") if found is not None else None
        if found is not None and method is not None:
            self._run(found, method, [], depth)

    def inlined(self, call: Call, depth: int) -> Value | None:
        """Interpret the method of the jar that a call runs, and return what it returns; None if there is none or nothing."""
        is_known = any(not isinstance(each, Unknown) for each in call.arguments)
        if depth >= _MAX_DEPTH or not (is_known or not call.arguments) or call.owner not in self.classes:
            return None
        owner: str | None = call.owner
        for _ in range(_MAX_DEPTH):
            found = self.classes.find(owner) if owner else None
            if found is None:
                return None
            method = found.method(call.name, call.descriptor)
            if method is not None:
                own = [] if call.receiver is None else [call.receiver]
                arguments = [*own, *call.arguments]
                return self._run(found, method, arguments, depth + 1, is_conditional=call.is_conditional)
            owner = found.super_name
        return None


class _Frame:
    """One method while it is interpreted."""

    def __init__(
        self,
        interpreter: Interpreter,
        found: ClassFile,
        method: ClassMethod,
        depth: int,
        *,
        is_conditional: bool,
    ) -> None:
        assert method.code is not None
        self._interpreter = interpreter
        self._class = found
        self._pool = found.constants
        self._caller = f"{found.name}.{method.name}"
        self._depth = depth
        self._code = method.code.instructions
        self._is_conditional = is_conditional
        # Object → how many jumps had been met when it was made.
        self._made_amid: dict[int, int] = {}
        self._met = 0
        # Target of a jump that goes past this place → how many had been met before it.
        self._jumps: dict[int, int] = {}
        self._handlers = frozenset(method.code.handlers)
        self._saved: dict[int, _State] = {at: _State([ANYTHING], {}) for at in method.code.handlers}
        self._returned: Value | None = None
        self._is_over = False

    def run(self, arguments: list[Value]) -> Value | None:
        """Interpret the code and return what it returns."""
        code = self._code
        variables: dict[int, Value] = {}
        index = 0
        for argument in arguments:
            variables[index] = argument
            index += 2 if is_wide(argument) else 1
        loops = self._loops()
        state: _State | None = _State([], variables)
        position = 0
        while position < len(code):
            length = opcodes.length_of(code, position)
            if length <= 0 or position + length > len(code):
                self._interpreter.is_complete = False
                break
            saved = self._saved.pop(position, None)
            self._jumps.pop(position, None)
            if saved is not None:
                if state is None:
                    state = saved
                else:
                    self._count(state.work)
                    state.merge(saved)
            if state is None:
                state = _State([], {})
            for changed in loops.get(position, ()):
                state.variables.pop(changed, None)
            self._step(position, state)
            for target in opcodes.targets_of(code, position, length):
                if target > position:
                    self._save(target, state)
            if self._is_over:
                return None
            if code[position] in opcodes.ENDS:
                state = None
            position += length
        return self._returned

    def _loops(self) -> dict[int, set[int]]:
        """Return the position of each loop → the variables that it changes."""
        code, position, count, work = self._code, 0, 0, 0
        stored: list[tuple[int, int]] = []
        loops: dict[int, set[int]] = {}
        while position < len(code) and count <= _MAX_METHOD and work <= _MAX_WORK:
            length = opcodes.length_of(code, position)
            if length <= 0 or position + length > len(code):
                break
            count += 1
            # Only those with tables are so long.
            work += length // 8
            local = opcodes.local_of(code, position)
            index = local[0] if local is not None and local[2] else opcodes.incremented(code, position)
            if index is not None:
                stored.append((position, index))
            for target in opcodes.targets_of(code, position, length):
                if target <= position and work <= _MAX_WORK:
                    changed = {each for at, each in stored[bisect_left(stored, (target, 0)) :]}
                    loops.setdefault(target, set()).update(changed)
                    work += (len(stored) + 4 * len(changed)) // _ELEMENTS
            position += length
        if count > _MAX_METHOD:
            self._interpreter.is_complete = False
        if not self._interpreter.count(count + work) or count > _MAX_METHOD:
            self._code = b""
        return loops

    def _count(self, work: int) -> None:
        self._is_over = not self._interpreter.count(work) or self._is_over

    def _save(self, target: int, state: _State) -> None:
        self._count(state.work)
        if self._is_over:
            return
        if target in self._saved:
            self._saved[target].merge(state)
        else:
            self._saved[target] = state.copy()
        if target not in self._handlers and target not in self._jumps:
            self._met += 1
            self._jumps[target] = self._met

    def _step(self, position: int, state: _State) -> None:
        """Do one instruction."""
        code, opcode = self._code, self._code[position]
        if opcode in opcodes.PUSHED:
            state.push(Constant(*opcodes.PUSHED[opcode]))
        elif opcode in (opcodes.BIPUSH, opcodes.SIPUSH):
            size = opcode - opcodes.BIPUSH + 1
            state.push(
                Constant(int.from_bytes(code[position + 1 : position + 1 + size], "big", signed=True), "I")
            )
        elif opcode in (opcodes.LDC, opcodes.LDC_W, opcodes.LDC2_W):
            state.push(self._loaded(self._index(position, 1 if opcode == opcodes.LDC else 2), opcode))
        elif (local := opcodes.local_of(code, position)) is not None:
            index, letter, is_stored = local
            if is_stored:
                state.variables[index] = state.pop()
            else:
                state.push(state.variables.get(index, Unknown(letter)))
        elif (changed := opcodes.incremented(code, position)) is not None:
            state.variables[changed] = Unknown("I")
        elif opcodes.POP <= opcode <= opcodes.SWAP:
            self._shuffle(opcode, state)
        elif opcode == opcodes.AASTORE:
            array, at, value = state.take(3)
            index_value = number_of(at)
            if isinstance(array, ArrayValue) and index_value is not None:
                array.elements[index_value] = value
        elif opcode in opcodes.COMPUTED:
            self._compute(opcode, state)
        elif opcode in opcodes.TAKEN:
            state.take(opcodes.TAKEN[opcode])
        elif opcodes.IRETURN <= opcode < opcodes.RETURN:
            value = state.pop()
            self._returned = value if self._returned is None else merged(self._returned, value)
        elif opcodes.GETSTATIC <= opcode <= opcodes.PUTFIELD:
            self._field(opcode, self._counted(self._pool.member(self._index(position))), state)
        elif opcodes.INVOKEVIRTUAL <= opcode <= opcodes.INVOKEINTERFACE:
            self._invoke(opcode, self._counted(self._pool.member(self._index(position))), state)
        elif opcode == opcodes.INVOKEDYNAMIC:
            self._bind(self._index(position), state)
        elif opcode == opcodes.NEW:
            name = self._pool.name(self._index(position))
            self._count(len(name) // _CHARACTERS)
            state.push(Instance(name))
        elif opcode in (opcodes.NEWARRAY, opcodes.ANEWARRAY):
            state.push(ArrayValue(number_of(state.pop())))
        elif opcode == opcodes.MULTIANEWARRAY:
            state.take(code[position + 3])
            state.push(Unknown("A"))
        elif opcode in (opcodes.JSR, opcodes.JSR_W):
            state.push(ANYTHING)

    def _index(self, position: int, size: int = 2) -> int:
        return int.from_bytes(self._code[position + 1 : position + 1 + size], "big")

    def _counted(self, member: Member) -> Member:
        """Return a field or method whose names were counted."""
        self._count((len(member.owner) + len(member.name)) // _CHARACTERS + _work_of(member.descriptor))
        return member

    def _loaded(self, index: int, opcode: int) -> Value:
        value = self._pool.value(index)
        if isinstance(value, ClassConstant):
            self._count(len(value.name) // _CHARACTERS)
            return ClassValue(value.name)
        if value is None:
            return Unknown("J" if opcode == opcodes.LDC2_W else "A")
        if isinstance(value, str):
            self._count(len(value) // _CHARACTERS)
            return Constant(value, "A")
        if opcode == opcodes.LDC2_W:
            return Constant(value, "J" if isinstance(value, int) else "D")
        return Constant(value, "I" if isinstance(value, int) else "F")

    def _compute(self, opcode: int, state: _State) -> None:
        count, letter = opcodes.COMPUTED[opcode]
        taken = state.take(count)
        known = constant_of(taken[0])
        # `i2l`: a number stays what it is.
        if count == 1 and letter in "IJ" and isinstance(known, int) and isinstance(taken[0], Constant):
            state.push(Constant(known, letter) if opcode >= 133 else Unknown(letter))
        elif opcode == 50 and isinstance(taken[0], ArrayValue) and number_of(taken[1]) in taken[0].elements:
            state.push(taken[0].elements[number_of(taken[1]) or 0])
        else:
            state.push(Unknown(letter))

    def _shuffle(self, opcode: int, state: _State) -> None:
        """Do `pop` to `swap`. A long or double is one value here, and two words there."""
        top = state.pop()
        if opcode == opcodes.POP or (opcode == opcodes.POP2 and is_wide(top)):
            return
        if opcode == opcodes.POP2:
            state.pop()
        elif opcode == opcodes.DUP or (opcode == opcodes.DUP2 and is_wide(top)):
            state.push(top, top)
        elif opcode == opcodes.SWAP:
            below = state.pop()
            state.push(top, below)
        elif opcode in (opcodes.DUP_X1, opcodes.DUP_X2):
            below = state.pop()
            deeper = [state.pop()] if opcode == opcodes.DUP_X2 and not is_wide(below) else []
            state.push(top, *deeper, below, top)
        else:
            pair = [top] if is_wide(top) else [state.pop(), top]
            under: list[Value] = []
            if opcode != opcodes.DUP2:
                under = [state.pop()]
                if opcode == opcodes.DUP2_X2 and not is_wide(under[0]):
                    under.insert(0, state.pop())
            state.push(*pair, *under, *pair)

    def _field(self, opcode: int, member: Member, state: _State) -> None:
        if opcode in (opcodes.PUTSTATIC, opcodes.PUTFIELD):
            value = state.pop()
            if opcode == opcodes.PUTFIELD:
                state.pop()
            self._interpreter.store(member.owner, member.name, value)
            return
        if opcode == opcodes.GETFIELD:
            state.pop()
        known = self._interpreter.load(member, self._depth)
        if known is not None:
            state.push(known)
        elif opcode == opcodes.GETSTATIC:
            state.push(StaticField(member.owner, member.name))
        else:
            state.push(Unknown(member.descriptor if len(member.descriptor) == 1 else "A"))

    def _invoke(self, opcode: int, member: Member, state: _State) -> None:
        types = method_signature(member.descriptor)
        arguments = tuple(state.take(len(types.parameters)))
        self._count(_CALL + len(arguments) // 8)
        receiver = None if opcode == opcodes.INVOKESTATIC else state.pop()
        if member.name == "<init>":
            if isinstance(receiver, Instance) and not receiver.descriptor:
                receiver.descriptor, receiver.arguments = member.descriptor, arguments
                self._made_amid[id(receiver)] = self._met
                self._interpreter.made.append((receiver, self._caller))
            return
        call = self._call(member, receiver, arguments)
        returned = self._interpreter.inlined(call, self._depth)
        if types.returns.name == "void":
            return
        is_useful = returned is not None and not isinstance(returned, Unknown)
        state.push(returned if is_useful and returned is not None else call)

    def _call(self, member: Member, receiver: Value | None, arguments: tuple[Value, ...]) -> Call:
        """Note a call."""
        made_amid = self._made_amid.get(id(receiver))
        is_conditional = (
            self._is_conditional or bool(self._jumps)
            if made_amid is None
            # The last of them was met last: none is met again before its target.
            else bool(self._jumps) and next(reversed(self._jumps.values())) > made_amid
        )
        call = Call(
            member.owner, member.name, member.descriptor, receiver, arguments, self._caller, is_conditional
        )
        self._interpreter.calls.append(call)
        return call

    def _bind(self, index: int, state: _State) -> None:
        """Do `invokedynamic`: lambdas are kept, texts that are joined are unknown."""
        bootstrap, member = self._pool.dynamic(index)
        types = method_signature(self._counted(member).descriptor)
        captured = state.take(len(types.parameters))
        method = self._class.bootstrap_methods[bootstrap]
        if method.method.owner == _METAFACTORY and len(method.arguments) > 2:
            target = self._counted(self._pool.handle(method.arguments[1]))
            bound = self._pool.method_type(method.arguments[2])
            self._count(_work_of(bound))
            if target.owner not in self._interpreter.classes:
                # A reference to a method of a library (`descriptor::enableTimeToLive`): whoever gets it may call it.
                receiver = captured[0] if captured else ANYTHING
                self._call(target, receiver, tuple(captured[1:]))
            state.push(Lambda(target.owner, target.name, target.descriptor, bound))
        elif types.returns.name != "void":
            state.push(Unknown("A"))


def _alike(first: Value, second: Value) -> Value:
    """Return what two values of one field agree on; the same code that is read twice makes other objects of one kind."""
    if isinstance(first, Instance) and isinstance(second, Instance):
        same = first.class_name == second.class_name and _alike_all(first.arguments, second.arguments)
        return second if same else ANYTHING
    if isinstance(first, Call) and isinstance(second, Call):
        same = (first.owner, first.name, first.caller) == (second.owner, second.name, second.caller)
        return second if same and _alike_all(first.arguments, second.arguments) else ANYTHING
    if isinstance(first, ArrayValue) and isinstance(second, ArrayValue):
        return second if first.length == second.length else ANYTHING
    return merged(first, second)


def _alike_all(first: tuple[Value, ...], second: tuple[Value, ...]) -> bool:
    return len(first) == len(second) and all(
        constant_of(one) == constant_of(other) for one, other in zip(first, second, strict=True)
    )


def _work_of(descriptor: str) -> int:
    """Return the units that it costs to read the descriptor of a method; short ones are known from other calls."""
    return len(descriptor) // 256 * 32


def _letter(primitive: str) -> str:
    return {"long": "J", "double": "D", "float": "F"}.get(primitive, "I")
