"""A kernel that compiles in no time, for tests of building and loading."""

from fairseq_hrt.native.runtime import build

FUNCTIONS = """
typedef struct { const char *name; } table;
static const table only = {"plain"};
const char *fh_fingerprint(void) { return "fh_fingerprint=" FH_FINGERPRINT; }
const void *fh_choose(const char *forced, char *why, unsigned long size) { return &only; }
const char *fh_instruction_set(int place) { return place ? 0 : "plain"; }
int fh_compiled(const char *name) { return 1; }
int fh_usable(const char *name, char *why, unsigned long size) { return 1; }
"""


def built(small, tmp_path, **given):
    """What comes of building it."""
    return build.build(small[0], kernel=small[1], objects=tmp_path / "objects", **given)
