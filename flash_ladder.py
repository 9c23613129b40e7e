"""Makes `import flash_ladder` work at the top of the repository: the package itself is in common/python/flash_ladder."""

import importlib.util
import sys
from pathlib import Path

_package = Path(__file__).resolve().parent / "common" / "python" / "flash_ladder"
_spec = importlib.util.spec_from_file_location(__name__, _package / "__init__.py", submodule_search_locations=[str(_package)])
assert _spec and _spec.loader
sys.modules[__name__] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules[__name__])
