"""The source of the line in a ``.pth`` file that every Python process of the environment runs at
its start.

setup.py writes it, without comments, into ``fairseq_hrt_startup.pth``. Running it imports nothing
and takes a fraction of a millisecond. Then the first import of fairseq or its commands loads
`fairseq_hrt.compat`, without the rest of the package (whose ``__init__`` needs a working fairseq),
and installs the repairs. If fairseq_hrt has been uninstalled or is broken, fairseq is imported
unchanged.
"""

import sys


class RepairFairseq:
    """Meta-path finder that installs the repairs when fairseq is imported, and finds no module
    itself."""

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
            # search again, now with the RepairingFinder that install() has added
            return find_spec(name)
        except Exception as error:
            sys.modules.pop("fairseq_hrt.compat", None)
            sys.stderr.write(f"fairseq_hrt: fairseq is not repaired: {error!r}\n")
            return None


# Python's site goes through the .pth files of a virtual environment twice.
if not any(getattr(one, "__name__", "") == RepairFairseq.__name__ for one in sys.meta_path):
    # Its full types would have to be imported whenever Python starts.
    sys.meta_path.insert(0, RepairFairseq)  # type: ignore[arg-type]
