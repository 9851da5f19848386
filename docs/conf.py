"""The manual: ``sphinx-build -W -n -c docs . build/manual``, then open build/manual/index.html.

The root of the repository is the folder of the sources, so that links between its pages hold here
as they do on a code host.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import fairseq_hrt

project = "fairseq_hrt"
author = "The fairseq_hrt authors"
version = release = fairseq_hrt.__version__
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "examples/**.md"]
# The README is the page for a code host; its counterpart here is docs/index.md.
exclude_patterns = [".*", "build", "dist", "runs", "tests", "fairseq_hrt", "**/.*", "README.md"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "reference_pages"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
# Options begin with two hyphens.
smartquotes = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
# Docstrings name modules and types that the manual does not show. Links of pages are all checked.
nitpick_ignore_regex = [("py:.*", ".*")]
html_theme = "furo"
html_title = f"fairseq_hrt {release}"
html_copy_source = False
html_show_copyright = False
# The page that the folder's address shows.
html_additional_pages = {"index": "redirect.html"}
templates_path = ["_templates"]
