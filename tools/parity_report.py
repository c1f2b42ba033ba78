"""How much of PyTorch's own table of operations Lucid has, in an environment that has PyTorch.

python tools/parity_report.py           counts, and the names that Lucid does not have
python tools/parity_report.py NAME …    compare these entries now and print every difference
"""

import sys
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import opinfo
from test_opinfo_parity import DIFFERENT, check, check_variants

# Beneath public functions, for kinds of numbers and devices that are not here, or for PyTorch's own compilers.
PRIVATE = ("_", "torch.", "native_", "jiterator_", "max_pool2d_with_indices_backward", "sparse.", "to_sparse", "chalf")


def report() -> None:
    present = [name for name, op in opinfo.OPS.items() if opinfo.counterpart(op)]
    missing = sorted(set(opinfo.OPS) - set(present))
    print(f"{len(present)} of {len(opinfo.OPS)} entries of PyTorch's table, {len(DIFFERENT)} of them different")
    private = [name for name in missing if name.startswith(PRIVATE)]
    print("beneath PyTorch's public names:", *private, sep="\n  ")
    print("missing:", *(name for name in missing if name not in private), sep="\n  ")


def compare(names: list[str]) -> None:
    for name in names:
        for dtype in opinfo.DTYPES:
            try:
                check(name, dtype)
            except Exception:
                print(f"--- {name} {dtype}\n{traceback.format_exc(limit=-3)}")
        try:
            check_variants(name)
        except Exception:
            print(f"--- {name} variants\n{traceback.format_exc(limit=-3)}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    compare(sys.argv[1:]) if sys.argv[1:] else report()
