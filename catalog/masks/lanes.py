"""Feistel rounds of pseudonyms, and hashes, in vectors: integers, and texts and byte strings of at most 32 bytes, eight side by side.

The additions of one hash wait for each other, those of eight do not. LLVM makes of a vector of eight words what the processor has: one
register, two or four. A value never looks at its neighbours. The values of a block stand in columns of int64.

**Texts and byte strings** are four words, little endian, with zeros behind them. Their letters belong by turns to the one and the
other half of the network, so that both have as many, wherever they stand. A round replaces the letters of one half:

1. SipHash 1-3, with the round and the length in its secret, takes each word that the value has. A letter that is about to change
   counts as its class: so the hash depends on the form and on the other half.
2. Its state behind the last rounds, added to that before them, is 32 bytes, one for each place. (So does ChaCha; the state itself
   could be run backwards to the secret.)
3. A letter moves on in its class by this byte · size / 256; a byte of a byte string becomes that XOR this byte.

| column | meaning |
|---|---|
| VALUE | four words a value |
| PLACES | FF for each letter, and each byte of a byte string |
| HALF | the same, for those of the first half |
| LENGTH | in bytes |
| ARE_BYTES | all bits if it is a byte string |
| LETTERS | their number |
| ROUNDS | 4, 6 or 8; 0 for a value with fewer than two letters, which stays |
| DIGITS | hexadecimal digits of a hash of 128 bits, in words |

**Integers** are two numbers; a round moves one of them on, modulo its size, by SipHash 1-3 of the other · size / 2^64.

| column | meaning |
|---|---|
| LEFT, RIGHT | the numbers |
| LEFT_SIZE, RIGHT_SIZE | how many each of them can be, below 2^32 |
| TWEAK | of the form; each round adds 1 |
| GREATEST | a value `left * right_size + right` above it is permuted again |
| NUMBER_ROUNDS | 4 or 8; 0 for one that stays |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catalog.masks.siphash import LOW_32, SIP, WIDE, WIDER
from readers import Intrinsic

LANES = 8
WORDS = 4
MOST_BYTES = WORDS * 8
BLOCK = 64
_COLUMN = BLOCK * 8
VALUE, PLACES, HALF, DIGITS = (group * WORDS * _COLUMN for group in range(4))
LENGTH, ARE_BYTES, LETTERS, ROUNDS, BLOCK_BYTES = (
    column * _COLUMN for column in range(4 * WORDS, 4 * WORDS + 5)
)
LEFT, RIGHT, LEFT_SIZE, RIGHT_SIZE, TWEAK, GREATEST, NUMBER_ROUNDS, NUMBERS_BYTES = range(
    0, 8 * _COLUMN, _COLUMN
)
FEWEST_ROUNDS, MORE_ROUNDS, MOST_ROUNDS = 4, 6, 8
# Forms of so many bits, three a digit and four a letter, take fewer rounds.
LARGE_BITS, SOME_BITS = 64, 32

_ONES = 0x0101010101010101
_EVEN = 0x00FF00FF00FF00FF
# Class of ASCII: its first character, its size, and the byte that stands for a letter of it in a hash: none of ASCII.
_CLASSES = ((0x30, 10, 0x80), (0x61, 26, 0x81), (0x41, 26, 0x82))

Vector = Any


class _Lanes:
    """Builds operations on the words of eight values."""

    def __init__(self, ir: Any, builder: Any, place: Any) -> None:
        self._ir, self._builder, self._place = ir, builder, place
        self._word = ir.IntType(64)
        self._words = ir.VectorType(self._word, LANES)
        self._bytes = ir.VectorType(ir.IntType(8), 8 * LANES)
        self._halves = ir.VectorType(ir.IntType(16), 4 * LANES)

    def splat(self, value: int) -> Vector:
        return self._ir.Constant(self._words, [value] * LANES)

    def splat_bytes(self, value: int) -> Vector:
        return self.splat(value * _ONES)

    def spread(self, word: Any) -> Vector:
        """Return a word of the kernel in all lanes."""
        first = self._ir.Constant(self._ir.IntType(32), 0)
        none = self._ir.Constant(self._words, self._ir.Undefined)
        order = self._ir.Constant(self._ir.VectorType(self._ir.IntType(32), LANES), [0] * LANES)
        return self._builder.shuffle_vector(self._builder.insert_element(none, word, first), none, order)

    def spread_from(self, address: Any, position: int) -> Vector:
        place = self._builder.add(address, self._ir.Constant(self._word, position))
        return self.spread(
            self._builder.load(self._builder.inttoptr(place, self._word.as_pointer()), align=1)
        )

    def _pointer(self, column: int) -> Any:
        place = self._builder.add(self._place, self._ir.Constant(self._word, column))
        return self._builder.inttoptr(place, self._words.as_pointer())

    def load(self, column: int) -> Vector:
        return self._builder.load(self._pointer(column), align=8)

    def store(self, column: int, value: Vector) -> None:
        self._builder.store(value, self._pointer(column), align=8)

    # ---- words ----

    def add(self, left: Vector, right: Vector) -> Vector:
        return self._builder.add(left, right)

    def subtract(self, left: Vector, right: Vector) -> Vector:
        return self._builder.sub(left, right)

    def both(self, left: Vector, right: Vector) -> Vector:
        return self._builder.and_(left, right)

    def any_of(self, first: Vector, *others: Vector) -> Vector:
        for other in others:
            first = self._builder.or_(first, other)
        return first

    def xor(self, left: Vector, right: Vector) -> Vector:
        return self._builder.xor(left, right)

    def without(self, left: Vector, right: Vector) -> Vector:
        return self._builder.and_(left, self._builder.not_(right))

    def up(self, value: Vector, bits: int) -> Vector:
        return self._builder.shl(value, self.splat(bits))

    def down(self, value: Vector, bits: int) -> Vector:
        return self._builder.lshr(value, self.splat(bits))

    def rotated(self, value: Vector, bits: int) -> Vector:
        return self.any_of(self.up(value, bits), self.down(value, 64 - bits))

    def number_of(self, mask: Vector) -> Vector:
        """Return how many bytes of each word are FF; the others are 00."""
        total = self.both(mask, self.splat(_ONES))
        for bits in (32, 16, 8):
            total = self.add(total, self.down(total, bits))
        return self.both(total, self.splat(0xFF))

    def are_greater(self, left: Vector, right: Vector) -> Vector:
        """Return all bits of a word where the left one is greater, else none."""
        return self._builder.sext(self._builder.icmp_signed(">", left, right), self._words)

    def chosen(self, mask: Vector, left: Vector, right: Vector) -> Vector:
        """Return the bits of `left` that are set in a mask, and the others of `right`."""
        return self.xor(right, self.both(mask, self.xor(left, right)))

    # ---- bytes ----

    def _of_bytes(self, operation: Any, *words: Vector) -> Vector:
        parts = [self._builder.bitcast(word, self._bytes) for word in words]
        return self._builder.bitcast(operation(*parts), self._words)

    def are_within(self, value: Vector, first: int, size: int) -> Vector:
        """Return FF for each byte that is one of `size` numbers from `first` on, else 00."""

        def compare(one: Any, least: Any, last: Any) -> Any:
            return self._builder.sext(
                self._builder.icmp_unsigned("<=", self._builder.sub(one, least), last), self._bytes
            )

        return self._of_bytes(compare, value, self.splat_bytes(first), self.splat_bytes(size - 1))

    def moved(self, index: Vector, by: Vector, sizes: Vector) -> Vector:
        """Return each byte's index in its class, moved on by `by` · size / 256; sizes are below 128."""
        steps = self.any_of(
            self._products(self.both(by, self.splat(_EVEN)), self.both(sizes, self.splat(_EVEN)), 8),
            self.without(
                self._products(
                    self.both(self.down(by, 8), self.splat(_EVEN)),
                    self.both(self.down(sizes, 8), self.splat(_EVEN)),
                    0,
                ),
                self.splat(_EVEN),
            ),
        )

        def move(one: Any, step: Any, size: Any) -> Any:
            total = self._builder.add(one, step)
            wrapped = self._builder.sub(total, size)
            # What is below its size becomes a byte of 128 or more: the lower one is right.
            return self._builder.select(self._builder.icmp_unsigned("<", wrapped, total), wrapped, total)

        return self._of_bytes(move, index, steps, sizes)

    def _products(self, left: Vector, right: Vector, down: int) -> Vector:
        """Return the products of words of 16 bits, shifted down."""
        builder = self._builder
        product = builder.mul(builder.bitcast(left, self._halves), builder.bitcast(right, self._halves))
        if down:
            product = builder.lshr(product, self._ir.Constant(self._halves, [down] * 4 * LANES))
        return builder.bitcast(product, self._words)

    def moved_number(self, number: Vector, by: Vector, size: Vector) -> Vector:
        """Return a number below a size of 32 bits, moved on by `by` · size / 2^64."""
        low = self.splat(LOW_32)
        first = self.down(self._builder.mul(self.both(by, low), size), 32)
        step = self.down(self.add(self._builder.mul(self.down(by, 32), size), first), 32)
        total = self.add(number, step)
        wrapped = self.subtract(total, size)
        return self.add(wrapped, self.both(size, self.are_greater(size, total)))

    def whole(self, left: Vector, right: Vector, right_size: Vector) -> Vector:
        """Return left · right_size + right."""
        return self.add(self._builder.mul(left, right_size), right)

    def bytes_of(self, length: Vector, word: int) -> Vector:
        """Return FF for each byte that values of such lengths have in a word."""
        rest = self.subtract(length, self.splat(8 * word))
        rest = self.both(rest, self.are_greater(rest, self.splat(0)))
        rest = self.chosen(self.are_greater(rest, self.splat(8)), self.splat(8), rest)
        # Twice four bits a byte: a shift by all 64 bits means nothing.
        half = self.up(rest, 2)
        return self._builder.not_(self._builder.shl(self._builder.shl(self.splat(-1), half), half))

    def hexadecimal(self, value: Vector) -> Vector:
        """Return eight hexadecimal digits of 32 bits, the first one in the highest byte: 10 to 15 become letters."""
        spread = value
        for bits, kept in ((16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F)):
            spread = self.both(self.any_of(spread, self.up(spread, bits)), self.splat(kept))
        are_letters = self.both(self.down(self.add(spread, self.splat_bytes(6)), 4), self.splat(_ONES))
        digits = self.add(spread, self.splat_bytes(0x30))
        # A letter is 39 = 32 + 4 + 2 + 1 behind its digit.
        for bits in (5, 2, 1, 0):
            digits = self.add(digits, self.up(are_letters, bits))
        return digits

    # ---- SipHash 1-3 ----

    def sip_begun(self, secret: Any, tweak: Vector) -> list[Vector]:
        """Return the first state, with a tweak in the second word of the secret."""
        first, second = self.spread_from(secret, 0), self.xor(self.spread_from(secret, 8), tweak)
        keys = (first, second, first, self.spread_from(secret, 8))
        return [self.xor(key, self.splat(word)) for key, word in zip(keys, SIP, strict=True)]

    def sip_taken(self, state: Sequence[Vector], word: Vector) -> list[Vector]:
        v0, v1, v2, v3 = state
        v0, v1, v2, v3 = self._sip_round(v0, v1, v2, self.xor(v3, word))
        return [self.xor(v0, word), v1, v2, v3]

    def sip_ended(self, state: Sequence[Vector], mark: int = 0xFF) -> list[Vector]:
        """Return the state behind the last rounds."""
        v0, v1, v2, v3 = state
        v2 = self.xor(v2, self.splat(mark))
        for _ in range(3):
            v0, v1, v2, v3 = self._sip_round(v0, v1, v2, v3)
        return [v0, v1, v2, v3]

    def folded(self, state: Sequence[Vector]) -> Vector:
        v0, v1, v2, v3 = state
        return self.xor(self.xor(v0, v1), self.xor(v2, v3))

    def sip_of_value(self, state: list[Vector], words: Sequence[Vector], length: Vector) -> list[Vector]:
        """Return the state behind the words that each value has."""
        for at, word in enumerate(words):
            has_it = self.are_greater(length, self.splat(8 * at))
            taken = self.sip_taken(state, word)
            state = [self.chosen(has_it, new, old) for new, old in zip(taken, state, strict=True)]
        return state

    def _sip_round(self, v0: Vector, v1: Vector, v2: Vector, v3: Vector) -> list[Vector]:
        v0, v2 = self.add(v0, v1), self.add(v2, v3)
        v1, v3 = self.xor(self.rotated(v1, 13), v0), self.xor(self.rotated(v3, 16), v2)
        v0 = self.rotated(v0, 32)
        v2, v0 = self.add(v2, v1), self.add(v0, v3)
        v1, v3 = self.xor(self.rotated(v1, 17), v2), self.xor(self.rotated(v3, 21), v0)
        return [v0, v1, self.rotated(v2, 32), v3]


class _Letters:
    """The letters of one word of a text.

    Attributes:
        digits, places: FF for each digit, for each letter.
        first: the first character of the class of each letter.
        sizes: of the classes.
        kinds: what stands for a letter in a hash.
    """

    def __init__(self, lanes: _Lanes, value: Vector) -> None:
        classes = [lanes.are_within(value, first, size) for first, size, _ in _CLASSES]
        self.digits, self.places = classes[0], lanes.any_of(*classes)
        self.first, self.sizes, self.kinds = (
            lanes.any_of(*(lanes.both(mask, lanes.splat_bytes(known[column]))
                           for mask, known in zip(classes, _CLASSES, strict=True)))
            for column in range(3)
        )  # fmt: skip


def _begun() -> Intrinsic:
    """Return an intrinsic `begin(place)`: note letters, halves and rounds of eight values that are there."""

    def build(ir: Any, builder: Any, place: Any) -> None:
        lanes = _Lanes(ir, builder, place)
        length, are_bytes = lanes.load(LENGTH), lanes.load(ARE_BYTES)
        ones = lanes.splat(_ONES)
        count = bits = lanes.splat(0)
        for word in range(WORDS):
            letters = _Letters(lanes, lanes.load(VALUE + word * _COLUMN))
            places = lanes.chosen(are_bytes, lanes.bytes_of(length, word), letters.places)
            own = lanes.number_of(places)
            # Each byte: whether the number of letters up to it is odd.
            odd = lanes.both(places, ones)
            for shift in (8, 16, 32):
                odd = lanes.xor(odd, lanes.up(odd, shift))
            is_odd_before = lanes.subtract(lanes.splat(0), lanes.both(count, lanes.splat(1)))
            odd = lanes.xor(odd, lanes.both(ones, is_odd_before))
            lanes.store(PLACES + word * _COLUMN, places)
            lanes.store(HALF + word * _COLUMN, lanes.both(lanes.are_within(odd, 1, 0xFF), places))
            count = lanes.add(count, own)
            of_text = lanes.subtract(lanes.up(own, 2), lanes.number_of(letters.digits))
            bits = lanes.add(bits, lanes.chosen(are_bytes, lanes.up(own, 3), of_text))
        rounds = lanes.splat(FEWEST_ROUNDS)
        for limit in (LARGE_BITS, SOME_BITS):
            rounds = lanes.add(
                rounds, lanes.both(lanes.are_greater(lanes.splat(limit), bits), lanes.splat(2))
            )
        lanes.store(LETTERS, count)
        lanes.store(ROUNDS, lanes.both(rounds, lanes.are_greater(count, lanes.splat(1))))

    return Intrinsic(build, 1, returns=False)


def _rounds(words: int) -> Intrinsic:
    """Return an intrinsic `permute(place, secret, number)`: two rounds for those of eight values that have so many.

    Args:
        words: that the longest of the values has.
    """

    def build(ir: Any, builder: Any, place: Any, secret: Any, number: Any) -> None:
        lanes = _Lanes(ir, builder, place)
        length, are_bytes = lanes.load(LENGTH), lanes.load(ARE_BYTES)
        has_round = lanes.are_greater(lanes.load(ROUNDS), lanes.spread(number))
        values, places, halves = (
            [lanes.load(column + word * _COLUMN) for word in range(words)] for column in (VALUE, PLACES, HALF)
        )
        letters = [_Letters(lanes, value) for value in values]
        tweak = lanes.add(lanes.up(length, 8), lanes.spread(number))
        for turn in range(2):
            changed = [
                lanes.both(has_round, lanes.without(one, half) if turn else half)
                for one, half in zip(places, halves, strict=True)
            ]
            seen = [
                lanes.chosen(mask, lanes.without(one.kinds, are_bytes), value)
                for mask, one, value in zip(changed, letters, values, strict=True)
            ]
            state = lanes.sip_begun(secret, lanes.add(tweak, lanes.splat(turn)))
            state = lanes.sip_of_value(state, seen, length)
            for word, (before, after) in enumerate(zip(state[:words], lanes.sip_ended(state), strict=False)):
                value, one, by = values[word], letters[word], lanes.add(before, after)
                new = lanes.add(lanes.moved(lanes.subtract(value, one.first), by, one.sizes), one.first)
                new = lanes.chosen(are_bytes, lanes.xor(value, by), new)
                values[word] = lanes.chosen(changed[word], new, value)
        for word, value in enumerate(values):
            lanes.store(VALUE + word * _COLUMN, value)

    return Intrinsic(build, 3, returns=False)


def _hashes() -> Intrinsic:
    """Return an intrinsic `hashes(place, secret)`: note the digits of the SipHash of 128 bits of each of eight values."""

    def build(ir: Any, builder: Any, place: Any, secret: Any) -> None:
        lanes = _Lanes(ir, builder, place)
        length = lanes.load(LENGTH)
        values = [lanes.load(VALUE + word * _COLUMN) for word in range(WORDS)]
        state = lanes.sip_of_value(lanes.sip_begun(secret, lanes.splat(WIDE)), values, length)
        first = lanes.sip_ended(lanes.sip_taken(state, length), WIDE)
        v0, v1, v2, v3 = first
        second = lanes.sip_ended([v0, lanes.xor(v1, lanes.splat(WIDER)), v2, v3], 0)
        for word, found in enumerate((lanes.folded(first), lanes.folded(second))):
            for half, value in enumerate((lanes.down(found, 32), lanes.both(found, lanes.splat(LOW_32)))):
                lanes.store(DIGITS + (2 * word + half) * _COLUMN, lanes.hexadecimal(value))

    return Intrinsic(build, 2, returns=False)


def _rounds_of_numbers() -> Intrinsic:
    """Return an intrinsic `permute(place, secret, number)`: two rounds for those of eight integers that have so many."""

    def build(ir: Any, builder: Any, place: Any, secret: Any, number: Any) -> None:
        lanes = _Lanes(ir, builder, place)
        has_round = lanes.are_greater(lanes.load(NUMBER_ROUNDS), lanes.spread(number))
        halves = [lanes.load(LEFT), lanes.load(RIGHT)]
        tweak = lanes.add(lanes.load(TWEAK), lanes.spread(number))
        for turn, size in enumerate((LEFT_SIZE, RIGHT_SIZE)):
            state = lanes.sip_begun(secret, lanes.add(tweak, lanes.splat(turn)))
            found = lanes.folded(lanes.sip_ended(lanes.sip_taken(state, halves[1 - turn])))
            moved = lanes.moved_number(halves[turn], found, lanes.load(size))
            halves[turn] = lanes.chosen(has_round, moved, halves[turn])
        lanes.store(LEFT, halves[0])
        lanes.store(RIGHT, halves[1])

    return Intrinsic(build, 3, returns=False)


def _ended_numbers() -> Intrinsic:
    """Return an intrinsic `end(place)`: those of eight integers that are not too great have no rounds any more."""

    def build(ir: Any, builder: Any, place: Any) -> None:
        lanes = _Lanes(ir, builder, place)
        value = lanes.whole(lanes.load(LEFT), lanes.load(RIGHT), lanes.load(RIGHT_SIZE))
        is_outside = lanes.are_greater(value, lanes.load(GREATEST))
        lanes.store(NUMBER_ROUNDS, lanes.both(lanes.load(NUMBER_ROUNDS), is_outside))

    return Intrinsic(build, 1, returns=False)


permute_numbers, end_numbers = _rounds_of_numbers(), _ended_numbers()
begin_lanes, hash_lanes = _begun(), _hashes()
permute_words_1, permute_words_2, permute_words_3, permute_words_4 = map(_rounds, range(1, WORDS + 1))
