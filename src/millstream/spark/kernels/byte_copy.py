"""Copying bytes between arrays inside compiled functions: one call of memcpy.

numba copies a slice byte by byte after it has checked whether source and target overlap, which took most of the time of a record of 200
bytes. Without numba the slices are copied by numpy.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from millstream.spark.kernels.compiled import compiled, numba

Bytes = npt.NDArray[np.uint8]

if numba is None:

    def _memory_copy(target: Bytes, target_position: int, source: Bytes, position: int, size: int) -> None:
        target[target_position : target_position + size] = source[position : position + size]

else:
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def _memory_copy(typing_context: Any, target: Any, target_position: Any, source: Any, position: Any, size: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            places = []
            for array in (0, 2):
                data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
                places.append(builder.gep(data, [arguments[array + 1]]))
            cgutils.raw_memcpy(builder, places[0], places[1], arguments[4], 1)  # type: ignore[no-untyped-call]
            return context.get_dummy_value()

        size_type = numba.types.intp
        return numba.types.void(target, size_type, source, size_type, size_type), generate


@compiled
def copy_bytes(target: Bytes, target_position: int, source: Bytes, position: int, size: int) -> None:
    """Copy `size` bytes; the caller has checked that they are there and fit."""
    _memory_copy(target, target_position, source, position, size)
