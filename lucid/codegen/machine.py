"""LLVM, through llvmlite, which is loaded when it is first needed: from text to machine code in memory."""

from functools import cached_property
from typing import Any

from lucid.codegen import images, llvm, lock


class Compiler:
    """Translates text of LLVM for one processor: this one, or another of which only the code is wanted."""

    def __init__(self, triple: str = "", cpu: str = "", features: str | None = None) -> None:
        self.is_host = not triple
        self._library = llvm.library() if self.is_host and not cpu and features is None else None
        self._machines: dict[str, Any] = {}  # by their models of code
        if self._library is not None:
            version, self.triple, self.cpu = self._library.version, self._library.triple, self._library.cpu
            self.features = self._library.features
        else:
            if triple:
                self.llvm.initialize_all_targets()
                self.llvm.initialize_all_asmprinters()
            version = ".".join(map(str, self.llvm.llvm_version_info))
            self.triple = triple or self.llvm.get_process_triple()
            self.cpu = cpu or self.llvm.get_host_cpu_name()
            self.features = self.llvm.get_host_cpu_features().flatten() if features is None else features
        self.identity = f"{version} {self.triple} {self.cpu} {self.features}"  # what decides about the code of a text

    @cached_property
    def llvm(self) -> Any:
        """What llvmlite has in Python."""
        import llvmlite.binding

        llvmlite.binding.initialize_native_target()
        llvmlite.binding.initialize_native_asmprinter()
        return llvmlite.binding

    def new_machine(self, model: str = "") -> Any:
        """What llvmlite calls a target machine; each of its loaders owns one."""
        model = model or ("jitdefault" if self.is_host else "default")
        target = self.llvm.Target.from_triple(self.triple)
        return target.create_target_machine(cpu=self.cpu, features=self.features, opt=3, reloc="pic", codemodel=model)

    def _compiled(self, text: str, model: str, is_object: bool) -> bytes:
        """The code of a text, checked and made better without changing what it computes."""
        text = f'target triple = "{self.triple}"\n{text}'
        with lock:
            if model not in self._machines:
                made = self.new_machine if self._library is None else self._library.new_machine
                self._machines[model] = made(model)
            machine = self._machines[model]
            if self._library is not None:
                return self._library.compiled(machine, text, is_object)
            module = self.llvm.parse_assembly(text)
            module.verify()
            passes = self.llvm.create_new_module_pass_manager()
            passes.add_instruction_combine_pass()
            passes.add_loop_rotate_pass()
            passes.add_simplify_cfg_pass()
            options = self.llvm.create_pipeline_tuning_options(speed_level=1)
            passes.run(module, self.llvm.create_pass_builder(machine, options))
            found: bytes = machine.emit_object(module) if is_object else machine.emit_assembly(module).encode()
            return found

    def object_code(self, text: str) -> bytes:
        """The object file of a text, for LLVM's own loader."""
        return self._compiled(text, "jitdefault" if self.is_host else "default", True)

    def image(self, text: str) -> images.Image:
        """The code of a text, linked, for code that lies together; NotLinkedError where that cannot be."""
        return images.linked(self._compiled(text, "small", True))

    def assembly(self, text: str) -> str:
        return self._compiled(text, "small", False).decode()


class Loaded:
    """Machine code in memory, of which functions are asked by their names: by LLVM's loader."""

    def __init__(self, compiler: Compiler, code: bytes) -> None:
        llvm = compiler.llvm
        with lock:
            empty = llvm.parse_assembly(f'target triple = "{compiler.triple}"')
            self._engine = llvm.create_mcjit_compiler(empty, compiler.new_machine())
            self._engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        found: int = self._engine.get_function_address(name)
        return found
