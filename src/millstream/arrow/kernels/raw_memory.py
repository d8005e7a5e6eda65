"""Reading, writing and copying memory inside compiled functions: by address, and between arrays.

By address: for code that goes through many small functions per value. numba counts references for every array it passes on, which costs
more than the work itself; addresses are plain numbers. Whoever uses them keeps the arrays alive that they point into, and checks every
bound.

Numbers are little-endian and need not be aligned. Without numba the same functions go through ctypes.

Between arrays: numba copies a slice byte by byte after it has checked whether source and target overlap, which took most of the time of a
record of 200 bytes. `copy_bytes` is one call of memcpy, without numba one of numpy.
"""

import ctypes
import struct
from typing import Any

from millstream.arrow.kernels.compiled import Bytes, Number, compiled, numba

if numba is None:

    def load_byte(address: Number) -> Number:
        """The byte at an address."""
        return ctypes.c_uint8.from_address(int(address)).value

    def load_word(address: Number) -> Number:
        """The signed number of four bytes at an address."""
        return ctypes.c_int32.from_address(int(address)).value

    def load_long(address: Number) -> Number:
        """The signed number of eight bytes at an address."""
        return ctypes.c_int64.from_address(int(address)).value

    def store_byte(address: Number, value: Number) -> None:
        """Write one byte."""
        ctypes.c_uint8.from_address(int(address)).value = int(value)

    def store_word(address: Number, value: Number) -> None:
        """Write four bytes."""
        ctypes.c_int32.from_address(int(address)).value = int(value)

    def store_long(address: Number, value: Number) -> None:
        """Write eight bytes."""
        ctypes.c_int64.from_address(int(address)).value = int(value)

    def store_as_float(address: Number, value: Number) -> None:
        """Write a whole number as a float."""
        ctypes.c_float.from_address(int(address)).value = int(value)

    def store_as_double(address: Number, value: Number) -> None:
        """Write a whole number as a double."""
        ctypes.c_double.from_address(int(address)).value = int(value)

    def store_widened(address: Number, bits: Number) -> None:
        """Write the float of these bits as a double."""
        ctypes.c_double.from_address(int(address)).value = struct.unpack("<f", struct.pack("<i", int(bits)))[0]

    def copy_memory(target: Number, source: Number, size: Number) -> None:
        """Copy bytes between places that do not overlap."""
        ctypes.memmove(int(target), int(source), int(size))

    def _copy_slice(target: Bytes, target_position: int, source: Bytes, position: int, size: int) -> None:
        target[target_position : target_position + size] = source[position : position + size]

else:
    from llvmlite import ir
    from numba.core import cgutils
    from numba.extending import intrinsic

    _LONG, _NOTHING = numba.types.int64, numba.types.void
    _BITS = {1: ir.IntType(8), 4: ir.IntType(32), 8: ir.IntType(64)}
    _FLOAT, _DOUBLE = ir.FloatType(), ir.DoubleType()

    def _make_load(size: int) -> Any:
        @intrinsic
        def load(typing_context: Any, address: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                loaded = builder.load(builder.inttoptr(arguments[0], _BITS[size].as_pointer()), align=1)
                if size == 8:
                    return loaded
                return builder.zext(loaded, _BITS[8]) if size == 1 else builder.sext(loaded, _BITS[8])

            return _LONG(_LONG), generate

        return load

    def _make_store(convert: Any, target: Any) -> Any:
        @intrinsic
        def store(typing_context: Any, address: Any, value: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                place = builder.inttoptr(arguments[0], target.as_pointer())
                builder.store(convert(builder, arguments[1]), place, align=1)
                return context.get_dummy_value()

            return _NOTHING(_LONG, _LONG), generate

        return store

    load_byte, load_word, load_long = map(_make_load, (1, 4, 8))
    store_byte = _make_store(lambda builder, value: builder.trunc(value, _BITS[1]), _BITS[1])
    store_word = _make_store(lambda builder, value: builder.trunc(value, _BITS[4]), _BITS[4])
    store_long = _make_store(lambda builder, value: value, _BITS[8])
    store_as_float = _make_store(lambda builder, value: builder.sitofp(value, _FLOAT), _FLOAT)
    store_as_double = _make_store(lambda builder, value: builder.sitofp(value, _DOUBLE), _DOUBLE)
    store_widened = _make_store(
        lambda builder, bits: builder.fpext(builder.bitcast(builder.trunc(bits, _BITS[4]), _FLOAT), _DOUBLE), _DOUBLE
    )

    @intrinsic
    def copy_memory(typing_context: Any, target: Any, source: Any, size: Any) -> Any:
        """Copy bytes between places that do not overlap."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            places = [builder.inttoptr(address, _BITS[1].as_pointer()) for address in arguments[:2]]
            cgutils.raw_memcpy(builder, places[0], places[1], arguments[2], 1)  # type: ignore[no-untyped-call]
            return context.get_dummy_value()

        return _NOTHING(_LONG, _LONG, _LONG), generate

    @intrinsic
    def _copy_slice(typing_context: Any, target: Any, target_position: Any, source: Any, position: Any, size: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            places = []
            for array in (0, 2):
                data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
                places.append(builder.gep(data, [arguments[array + 1]]))
            cgutils.raw_memcpy(builder, places[0], places[1], arguments[4], 1)  # type: ignore[no-untyped-call]
            return context.get_dummy_value()

        size_type = numba.types.intp
        return _NOTHING(target, size_type, source, size_type, size_type), generate


@compiled
def copy_bytes(target: Bytes, target_position: int, source: Bytes, position: int, size: int) -> None:
    """Copy `size` bytes between arrays; the caller has checked that they are there and fit."""
    _copy_slice(target, target_position, source, position, size)


@compiled
def load_varint(position: Number, end: Number) -> tuple[Number, Number]:
    """The zigzag varint at an address and the address after it, or -1 for that if it does not end before `end` or is too long."""
    value = 0
    shift = 0
    while position < end and shift < 64:
        byte = load_byte(position)
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), position
        shift += 7
    return value, -1
