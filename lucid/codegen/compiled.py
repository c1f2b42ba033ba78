"""From recipes to the addresses of machine code: from the pack, from the cache on disk, or from LLVM, in this order."""

from collections.abc import Sequence
from typing import Any

from lucid.codegen import cache, images, lock, pack, processor, recipes
from lucid.codegen.bodies import Conversion, NotGeneratedError
from lucid.codegen.recipes import Recipe
from lucid.codegen.vectors import Function

_compiler: Any = None
_loaded: dict[str, tuple[Any, str]] = {}  # by the recipe, with where it is from
_identity = ""


class Code:
    """Machine code in memory, and what it was made from. It is kept as long as it is used."""

    def __init__(self, recipe: Recipe, loaded: Any, origin: str) -> None:
        self.recipe = recipe
        self.origin = origin  # where it was found: the pack, the cache or LLVM
        self._loaded = loaded
        self.addresses = tuple([loaded.address(name) for name in recipe.functions])

    def text(self) -> str:
        """What LLVM compiles."""
        return text_of(self.recipe)


made: dict[tuple[str, str, str], Code] = {}  # all generated kernels of this process, by kind, name and recipe
collected: list[dict[str, Recipe] | None] = [None]  # where recipes go instead of becoming code, while a pack is made


def compiler() -> Any:
    """The compiler for this processor."""
    global _compiler
    if _compiler is None:
        from lucid.codegen.machine import Compiler

        _compiler = Compiler()
    return _compiler


def text_of(recipe: Recipe) -> str:
    from lucid.codegen.loops import module

    return module(recipe.write())


def key_of(recipe: Recipe) -> str:
    """The name under which the pack has a recipe."""
    return cache.digest(f"{pack.sources()}\n{recipe.kind}\n{recipe.text}".encode()).hex()


def code_of(recipe: Recipe) -> Code:
    """The code of a recipe, made now if it was not yet."""
    place = (recipe.kind, recipe.name, recipe.text)
    with lock:
        if place not in made:
            key = key_of(recipe)
            if collected[0] is not None:
                collected[0][key] = recipe
                raise NotGeneratedError("recipes are collected")
            if key not in _loaded:
                _loaded[key] = _load(key, recipe)
            made[place] = Code(recipe, *_loaded[key])
        return made[place]


def _load(key: str, recipe: Recipe) -> tuple[Any, str]:
    found = pack.read(key) if images.can_load else None
    if found is not None:
        return _in_memory(found), "the pack"
    key = cached_key(key)
    found = cache.read(key)
    if found is not None:
        return _in_memory(found), "the cache"
    found = entry(recipe, compiler())
    cache.write(key, found)
    return _in_memory(found), "LLVM"


def cached_key(key: str) -> str:
    """The name under which the cache has a recipe: it also holds code for other processors, and by other compilers."""
    global _identity
    _identity = _identity or processor.identity() or compiler().identity
    return cache.digest(f"{_identity}\n{key}".encode()).hex()


def entry(recipe: Recipe, compiler: Any) -> bytes:
    """What stands in a file: a line that says what it is, how it is to be loaded, and the code."""
    text = text_of(recipe)
    operands, _, rest = recipe.text.partition("\n")[0].partition(" -> ")
    title = f"{recipe.kind} {recipe.name} {operands} -> {rest.partition(',')[0]}" if rest else recipe.name
    if images.can_load:
        try:
            return f"{title}\nimage\n".encode() + compiler.image(text).to_bytes()
        except images.NotLinkedError:
            pass
    code: bytes = compiler.object_code(text)
    return f"{title}\nobject\n".encode() + code


def _in_memory(entry: bytes) -> Any:
    _, how, code = entry.split(b"\n", 2)
    if how == b"image":
        try:
            return images.Loaded(images.Image.from_bytes(code))
        except images.NotLinkedError as error:  # a process may not execute memory that it has written
            raise NotGeneratedError(str(error)) from error
    from lucid.codegen.machine import Loaded

    return Loaded(compiler(), code)


def addresses(functions: Sequence[Function], kind: str = "loops", name: str = "") -> tuple[tuple[int, ...], Code]:
    """Where the code of functions that are already written is, and what must be kept as long as it is used."""
    from lucid.codegen.loops import module

    names = tuple([f.name for f in functions])
    code = code_of(Recipe(kind, name or names[0], module(functions), names, lambda: functions))
    return code.addresses, code


def elementwise(plan: Any) -> tuple[tuple[int, ...], Code]:
    """The loop of an elementwise operation (`bodies.Plan`), or of a cast whose elements were checked (`Conversion`)."""

    def write() -> list[Function]:
        from lucid.codegen import loops

        return [loops.elementwise(plan, "elementwise")]

    kind = "conversion" if isinstance(plan, Conversion) else "elementwise"
    code = code_of(Recipe(kind, plan.name, recipes.of_body(plan), ("elementwise",), write))
    return code.addresses, code


def fold(plan: Any, name: str = "") -> tuple[tuple[int, ...], Code]:
    """The loops of a reduction (`folds.FoldPlan`)."""
    code = code_of(_fold_recipe(plan, name))
    return code.addresses, code


def _fold_recipe(plan: Any, name: str) -> Recipe:
    from lucid.codegen import folds

    names = folds.FUNCTIONS_OF_A_FOLD[: -1 if plan.is_dear or plan.has_number else None]
    return Recipe(
        "reduction", name, recipes.fold_text(plan), names, lambda: [getattr(folds, n)(plan, n) for n in names]
    )


def packed_fold(plan: Any) -> tuple[int, ...] | None:
    """Where the loops of a reduction are, if the pack has them: programs then need none of their own."""
    recipe = _fold_recipe(plan, "")
    if not images.can_load or collected[0] is not None or not pack.has(key_of(recipe)):
        return None
    return code_of(recipe).addresses


def function_of_rows(plan: Any, single: Sequence[int], name: str = "") -> tuple[tuple[int, ...], Code]:
    """The loop of a function of rows along one row (`rows.RowPlan`)."""

    def write() -> list[Function]:
        from lucid.codegen.rows import rows

        return [rows(plan, "rows", single)]

    code = code_of(Recipe("rows", name, recipes.of_rows(plan, single), ("rows",), write))
    return code.addresses, code


def function_of_columns(plan: Any, shared: Sequence[int], name: str = "") -> tuple[tuple[int, ...], Code]:
    """The same along many rows side by side."""

    def write() -> list[Function]:
        from lucid.codegen.columns import columns

        return [columns(plan, "columns", shared)]

    code = code_of(Recipe("rows side by side", name, recipes.of_rows(plan, shared), ("columns",), write))
    return code.addresses, code


def scan(plan: Any, name: str = "") -> tuple[tuple[int, ...], Code]:
    """The loops of a scan (`scans.ScanPlan`)."""
    from lucid.codegen.scans import columns, line, rows

    return addresses([make(plan, make.__name__) for make in (line, rows, columns)], "scan", name)


def selection(plan: Any, name: str = "") -> tuple[tuple[int, ...], Code]:
    """The loop that finds the first few elements in order (`selections.SelectionPlan`)."""
    from lucid.codegen.selections import select

    return addresses([select(plan, "select")], "selection", name)


def update(plan: Any, name: str = "") -> tuple[tuple[int, ...], Code]:
    """The loop of an update in place (`updates.UpdatePlan`)."""

    def write() -> list[Function]:
        from lucid.codegen import updates

        return [updates.update(plan, "update")]

    code = code_of(Recipe("update", name, recipes.of_update(plan), ("update",), write))
    return code.addresses, code
