"""Object files by LLVM, and the name of the processor where the system does not describe it.

LLVM's loader places the sections and resolves their references, which are to `memcpy` and the like only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llvmlite import binding


def placed(code: bytes, symbols: Iterable[str]) -> tuple[Any, dict[str, int]]:
    """Load an object file; return what owns its memory, and the addresses of symbols."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine, {symbol: engine.get_function_address(symbol) for symbol in symbols}


def processor() -> tuple[str, str]:
    """Return the name of the processor and its features."""
    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
