"""What installing does beyond copying: it compiles the hot paths, where there is a compiler. See `lucid/native.py`."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileHotPaths(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, str(Path(self.root) / "tools"))
        from build_native import build, build_pack, settings, write_bytecode

        if self.target_name != "wheel" or settings().PURE:
            return
        if version == "editable":  # pip does it for others
            write_bytecode()
        try:
            build(portable=version != "editable")
        except (Exception, SystemExit) as error:
            # The sources do the same: only slower, so a machine without a compiler is no reason to fail.
            self.app.display_warning(f"lucid is installed without machine code, since it could not be built: {error}")
            return
        build_pack()
        build_data["pure_python"], build_data["infer_tag"] = False, True
        build_data["artifacts"].append("lucid/_native/**")
