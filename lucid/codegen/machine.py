"""LLVM, through llvmlite, which is imported when it is first needed: from text to machine code in memory."""

from typing import Any

from lucid.codegen import images, lock


class Compiler:
    """Translates text of LLVM for one processor: this one, or another of which only the code is wanted."""

    def __init__(self, triple: str = "", cpu: str = "", features: str | None = None) -> None:
        import llvmlite.binding as llvm

        self.llvm: Any = llvm
        if triple:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
        else:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
        self.triple = triple or llvm.get_process_triple()
        self.cpu = cpu or llvm.get_host_cpu_name()
        self.features = llvm.get_host_cpu_features().flatten() if features is None else features
        self.is_host = not triple
        version = ".".join(map(str, llvm.llvm_version_info))
        self.identity = f"{version} {self.triple} {self.cpu} {self.features}"  # what decides about the code of a text
        self._machine: Any = None

    def new_machine(self, model: str = "") -> Any:
        """What LLVM calls a target machine; each of its loaders owns one."""
        model = model or ("jitdefault" if self.is_host else "default")
        target = self.llvm.Target.from_triple(self.triple)
        return target.create_target_machine(cpu=self.cpu, features=self.features, opt=3, reloc="pic", codemodel=model)

    @property
    def machine(self) -> Any:
        """The machine for code that lies together, as that of images does."""
        if self._machine is None:
            self._machine = self.new_machine("small")
        return self._machine

    def optimized(self, text: str) -> Any:
        """The module of a text, checked and made better without changing what it computes."""
        llvm = self.llvm
        module = llvm.parse_assembly(f'target triple = "{self.triple}"\n{text}')
        module.verify()
        passes = llvm.create_new_module_pass_manager()
        passes.add_instruction_combine_pass()
        passes.add_loop_rotate_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, llvm.create_pass_builder(self.machine, llvm.create_pipeline_tuning_options(speed_level=1)))
        return module

    def object_code(self, text: str) -> bytes:
        """The object file of a text, for LLVM's own loader."""
        with lock:
            code: bytes = self.new_machine().emit_object(self.optimized(text))
        return code

    def image(self, text: str) -> images.Image:
        """The code of a text, linked; NotLinkedError where that cannot be."""
        with lock:
            return images.linked(self.machine.emit_object(self.optimized(text)))

    def assembly(self, text: str) -> str:
        with lock:
            code: str = self.machine.emit_assembly(self.optimized(text))
        return code


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
