"""The shared library of llvmlite without its Python modules, whose import takes as long as compiling some loops does.

What is called here are the functions that `llvmlite.binding` calls, in the versions of which this is known; with others,
that is used. Each text is compiled in a context of its own, beside what others do with the library.
"""

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lucid.codegen import processor

_KNOWN = ("0.50",)  # versions of llvmlite
_OBJECT = ctypes.c_void_p
_TEXT, _OUT = ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)
# The functions, without the prefix of all of them: what they give, and what they take.
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "InitializeNativeTarget": (None, []),
    "InitializeNativeAsmPrinter": (None, []),
    "GetVersionInfo": (ctypes.c_uint, []),
    "GetProcessTriple": (None, [_OUT]),
    "GetHostCPUName": (None, [_OUT]),
    "GetHostCPUFeatures": (ctypes.c_int, [_OUT]),
    "DisposeString": (None, [_OBJECT]),
    "ContextCreate": (_OBJECT, []),
    "ContextDispose": (None, [_OBJECT]),
    "GetTargetFromTriple": (_OBJECT, [_TEXT, _OUT]),
    "CreateTargetMachine": (
        _OBJECT,
        [_OBJECT, _TEXT, _TEXT, _TEXT, ctypes.c_int, _TEXT, _TEXT, ctypes.c_int, ctypes.c_int, _TEXT],
    ),
    "ParseAssembly": (_OBJECT, [_OBJECT, _TEXT, _OUT]),
    "VerifyModule": (ctypes.c_bool, [_OBJECT, _OUT]),
    "DisposeModule": (None, [_OBJECT]),
    "CreateNewModulePassManager": (_OBJECT, []),
    "DisposeNewModulePassManger": (None, [_OBJECT]),
    "module_AddInstCombinePass": (None, [_OBJECT]),
    "module_AddLoopRotatePass": (None, [_OBJECT]),
    "module_AddSimplifyCFGPass": (None, [_OBJECT]),
    "CreatePipelineTuningOptions": (_OBJECT, []),
    "DisposePipelineTuningOptions": (None, [_OBJECT]),
    "CreatePassBuilder": (_OBJECT, [_OBJECT, _OBJECT]),
    "DisposePassBuilder": (None, [_OBJECT]),
    "RunNewModulePassManager": (None, [_OBJECT, _OBJECT, _OBJECT]),
    "TargetMachineEmitToMemory": (_OBJECT, [_OBJECT, _OBJECT, ctypes.c_int, _OUT]),
    "GetBufferStart": (_OBJECT, [_OBJECT]),
    "GetBufferSize": (ctypes.c_size_t, [_OBJECT]),
    "DisposeMemoryBuffer": (None, [_OBJECT]),
}


def library() -> "Library | None":
    """The library, or None where `llvmlite.binding` is to be used."""
    version = re.search(r"version_version = '(\d+\.\d+)\.", processor.llvm_version())
    path = os.path.join(processor.llvm_folder(), "binding", "libllvmlite.so")
    is_known = version is not None and version.group(1) in _KNOWN
    if sys.platform != "linux" or "llvmlite.binding" in sys.modules or not is_known or not os.path.exists(path):
        return None
    try:
        return Library(path)
    except (OSError, AttributeError):  # it cannot be loaded, or has no such functions
        return None


class Library:
    """The functions of the library, for the processor at hand."""

    def __init__(self, path: str) -> None:
        loaded = ctypes.CDLL(path)
        self._call: dict[str, Any] = {}
        for name, (result, arguments) in _FUNCTIONS.items():
            function = self._call[name] = getattr(loaded, f"LLVMPY_{name}")
            function.restype, function.argtypes = result, arguments
        self._call["InitializeNativeTarget"]()
        self._call["InitializeNativeAsmPrinter"]()
        number = self._call["GetVersionInfo"]()  # a byte for each part
        self.version = ".".join(map(str, number.to_bytes(4, "big").lstrip(b"\0")))
        self.triple, self.cpu = self._told("GetProcessTriple"), self._told("GetHostCPUName")
        features = [f for f in self._told("GetHostCPUFeatures").split(",") if f]
        self.features = ",".join(sorted(features, key=lambda f: f[1:]))

    def _told(self, name: str) -> str:
        """The text that a function gives."""
        with self._message() as (out, text):
            self._call[name](out)
            return text()

    @contextmanager
    def _message(self) -> Iterator[Any]:
        """Room for the address of a text that the library makes, and a function that reads it."""
        out = ctypes.c_void_p()
        try:
            yield ctypes.byref(out), lambda: (ctypes.string_at(out.value) if out.value else b"").decode()
        finally:
            if out.value:
                self._call["DisposeString"](out)

    def new_machine(self, model: str) -> Any:
        """What LLVM calls a target machine; it is kept as long as the process lives."""
        with self._message() as (out, text):
            target = self._call["GetTargetFromTriple"](self.triple.encode(), out)
            if not target:
                raise RuntimeError(text())
        given = [t.encode() for t in (self.triple, self.cpu, self.features)]
        made = self._call["CreateTargetMachine"](target, *given, 3, b"pic", model.encode(), 0, 0, b"")
        if not made:
            raise RuntimeError("LLVM has no machine for this processor")
        return made

    def compiled(self, machine: Any, text: str, is_object: bool) -> bytes:
        """The object file of a text, or its assembly."""
        context = self._call["ContextCreate"]()
        try:
            module = self._parsed(context, text)
            try:
                self._optimize(machine, module)
                return self._emitted(machine, module, is_object)
            finally:
                self._call["DisposeModule"](module)
        finally:
            self._call["ContextDispose"](context)

    def _parsed(self, context: Any, text: str) -> Any:
        with self._message() as (out, said):
            module = self._call["ParseAssembly"](context, text.encode(), out)
            if not module:
                raise RuntimeError(f"LLVM IR parsing error\n{said()}")
        with self._message() as (out, said):
            if self._call["VerifyModule"](module, out):
                self._call["DisposeModule"](module)
                raise RuntimeError(said())
        return module

    def _optimize(self, machine: Any, module: Any) -> None:
        passes, options = self._call["CreateNewModulePassManager"](), self._call["CreatePipelineTuningOptions"]()
        for name in ("InstCombine", "LoopRotate", "SimplifyCFG"):
            self._call[f"module_Add{name}Pass"](passes)
        builder = self._call["CreatePassBuilder"](machine, options)
        self._call["RunNewModulePassManager"](passes, module, builder)
        self._call["DisposePassBuilder"](builder)
        self._call["DisposePipelineTuningOptions"](options)
        self._call["DisposeNewModulePassManger"](passes)

    def _emitted(self, machine: Any, module: Any, is_object: bool) -> bytes:
        with self._message() as (out, said):
            memory = self._call["TargetMachineEmitToMemory"](machine, module, int(is_object), out)
            if not memory:
                raise RuntimeError(said())
        found = ctypes.string_at(self._call["GetBufferStart"](memory), self._call["GetBufferSize"](memory))
        self._call["DisposeMemoryBuffer"](memory)
        return found
