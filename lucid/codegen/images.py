"""Machine code that is ready to run wherever it lies: object files linked once, so that loading them needs no LLVM.

An image holds the sections of an object file one after the other. They refer to each other by distances, which are
written when it is linked; what stands outside (functions of C) is called by a jump through an address, which is
written when the image is loaded. This reads the object files of Linux (ELF) for x86-64 and ARM; others keep to LLVM's
loader.
"""

import ctypes
import mmap
import os
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

_X86, _ARM = 62, 183  # as the headers of object files call them
_NULL, _PROGBITS, _SYMTAB, _RELA, _NOBITS = 0, 1, 2, 4, 8
_ALLOCATED, _WRITABLE = 2, 1
# A jump to the address that follows, of eight bytes.
_JUMPS = {_X86: b"\xff\x25\x02\x00\x00\x00\xcc\xcc", _ARM: struct.pack("<II", 0x58000050, 0xD61F0200)}
_PAGE = 4096  # what distances between pages are counted in; real ones may be larger


class NotLinkedError(ValueError):
    """An object file that has something this does not know."""


class Image(NamedTuple):
    """Code, with the places of functions in it, and of the addresses of functions that it calls."""

    code: bytes
    functions: Mapping[str, int]
    calls: Mapping[str, int]

    def to_bytes(self) -> bytes:
        """The image with a first line that says what is where."""
        tables = [" ".join(f"{name}={place}" for name, place in t.items()) for t in (self.functions, self.calls)]
        return "\t".join(tables).encode() + b"\n" + self.code

    @staticmethod
    def from_bytes(given: bytes) -> "Image":
        first, _, code = given.partition(b"\n")
        tables = [
            {name: int(place) for name, _, place in (entry.partition("=") for entry in part.split())}
            for part in first.decode().split("\t")
        ]
        return Image(code, tables[0], tables[1])


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


def linked(data: bytes) -> Image:
    """The image of an object file."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise NotLinkedError("no object file of 64 bits for Linux")
    machine, table = struct.unpack_from("<H20xQ", data, 18)
    width, count, _ = struct.unpack_from("<HHH", data, 58)
    if machine not in _JUMPS:
        raise NotLinkedError(f"an object file for the processor {machine}")
    sections = [_Section(*struct.unpack_from("<IIQQQQIIQQ", data, table + k * width)) for k in range(count)]
    code = bytearray()
    starts: dict[int, int] = {}
    for k, s in enumerate(sections):
        if not s.flags & _ALLOCATED or not s.size:
            continue
        if s.kind != _PROGBITS or s.flags & _WRITABLE or s.alignment > _PAGE:
            raise NotLinkedError("memory that is written to")
        code += bytes(-len(code) % max(s.alignment, 16))
        starts[k] = len(code)
        code += data[s.offset : s.offset + s.size]
    symbols = next((s for s in sections if s.kind == _SYMTAB), None)
    if symbols is None:
        raise NotLinkedError("no table of symbols")
    functions: dict[str, int] = {}
    calls: dict[str, int] = {}
    places: list[int | None] = []  # of each symbol, as far as it is known
    names = sections[symbols.link].offset
    for at in range(symbols.offset, symbols.offset + symbols.size, 24):
        name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, at)
        text = data[names + name : data.index(b"\0", names + name)].decode()
        place = starts[section] + value if section in starts else None
        if place is None and not section and text:
            if text not in calls:
                code += bytes(-len(code) % 16) + _JUMPS[machine]
                calls[text] = len(code)
                code += bytes(8)
            place = calls[text] - 8
        elif place is not None and info >> 4 and info & 15 == 2:  # a function that others see
            functions[text] = place
        places.append(place)
    for s in sections:
        if s.kind == _RELA and s.info in starts:
            for at in range(s.offset, s.offset + s.size, 24):
                offset, info, addend = struct.unpack_from("<QQq", data, at)
                target = places[info >> 32]
                if target is None:
                    raise NotLinkedError("a reference to something that is not loaded")
                _write(code, machine, info & 0xFFFFFFFF, starts[s.info] + offset, target + addend)
    return Image(bytes(code), functions, calls)


def _write(code: bytearray, machine: int, kind: int, at: int, target: int) -> None:
    """Write where something is, seen from a place in the code, as a kind of reference wants it."""
    if machine == _X86:
        if kind not in (2, 4):  # a distance of 32 bits, to memory or to a function
            raise NotLinkedError(f"a reference of kind {kind}")
        struct.pack_into("<i", code, at, target - at)
        return
    (word,) = struct.unpack_from("<I", code, at)
    if kind in (282, 283):  # a jump, with or without return, in steps of four bytes
        word |= ((target - at) >> 2) & 0x3FFFFFF
    elif kind == 275:  # the distance of pages
        pages = (target // _PAGE - at // _PAGE) & 0x1FFFFF
        word |= (pages & 3) << 29 | (pages >> 2) << 5
    elif kind in _SCALES:  # the place within a page, in steps of the numbers that are read
        word |= (target % _PAGE >> _SCALES[kind]) << 10
    else:
        raise NotLinkedError(f"a reference of kind {kind}")
    struct.pack_into("<I", code, at, word)


_SCALES = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}

# --- loading ---------------------------------------------------------------------------------------

can_load = sys.platform == "linux" and sys.byteorder == "little"
_libraries: list[Any] = []


def _address(name: str) -> int:
    """Where a function of C is in this process."""
    if not _libraries:
        _libraries.append(ctypes.CDLL(None))
        with suppress(OSError):
            _libraries.append(ctypes.CDLL("libm.so.6"))
    for library in _libraries:
        with suppress(AttributeError):
            return ctypes.cast(library[name], ctypes.c_void_p).value or 0
    raise NotLinkedError(f"there is no function {name}")


def _show_to_instructions(start: int, size: int) -> None:
    """Let the part of the processor that reads instructions see what was written, which on ARM it does not by itself.

    Linux does that for pages that become executable, but not again for those that were before, which others hand on.
    """
    if os.uname().machine != "aarch64":
        return
    with suppress(OSError, AttributeError):  # Linux alone does it, then
        clear = ctypes.CDLL("libgcc_s.so.1")["__clear_cache"]
        clear.argtypes, clear.restype = [ctypes.c_void_p, ctypes.c_void_p], None
        clear(start, start + size)


class Loaded:
    """An image in memory, which can be executed and is not changed any more."""

    def __init__(self, image: Image) -> None:
        self._functions = image.functions
        addresses = {place: _address(name) for name, place in image.calls.items()}
        private, writable = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE
        self._memory = mmap.mmap(-1, len(image.code), private, writable)
        self._memory.write(image.code)
        for place, address in addresses.items():
            struct.pack_into("<Q", self._memory, place, address)
        self._view = ctypes.c_char.from_buffer(self._memory)
        self._start = ctypes.addressof(self._view)
        size = -(-len(image.code) // mmap.PAGESIZE) * mmap.PAGESIZE
        _show_to_instructions(self._start, size)
        protect = ctypes.pythonapi.mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        if protect(self._start, size, mmap.PROT_READ | mmap.PROT_EXEC):
            raise NotLinkedError("memory of this process cannot be executed")

    def address(self, name: str) -> int:
        return self._start + self._functions[name]
