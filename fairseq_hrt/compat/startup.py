"""The text of the .pth line that every Python of the environment runs at start.

setup.py writes it, without comments, into ``fairseq_hrt_startup.pth``. It imports nothing and
costs a fraction of a millisecond; the first import of fairseq or of its commands loads
`fairseq_hrt.compat`, without the rest of the package (whose ``__init__`` needs a fairseq that
works), and installs the repairs. Once fairseq_hrt is gone, or if it is broken, fairseq is imported
as if this were not here.
"""

import sys


class RepairFairseq:
    """Meta-path finder that finds nothing itself."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> object:
        if name not in ("fairseq", "fairseq_cli") or "fairseq_hrt.compat" in sys.modules:
            return None
        try:
            from importlib.machinery import PathFinder
            from importlib.util import find_spec, module_from_spec

            # for a top-level name find_spec imports nothing
            package = find_spec("fairseq_hrt")
            if package is None:
                return None
            spec = PathFinder.find_spec("fairseq_hrt.compat", package.submodule_search_locations)
            if spec is None or spec.loader is None:
                return None
            compat = module_from_spec(spec)
            sys.modules["fairseq_hrt.compat"] = compat
            spec.loader.exec_module(compat)
            compat.install()
            # the finders are asked again, now with the repairing one among them
            return find_spec(name)
        except Exception as error:
            sys.modules.pop("fairseq_hrt.compat", None)
            sys.stderr.write(f"fairseq_hrt: fairseq is not repaired: {error!r}\n")
            return None


# Its full types would have to be imported whenever Python starts.
sys.meta_path.insert(0, RepairFairseq)  # type: ignore[arg-type]
