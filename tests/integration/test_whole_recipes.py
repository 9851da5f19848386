"""Every recipe from raw text to the figure that it prints, with tiny text and models.

The recipes are run as they stand. Only what ``fairseq-train`` is given is made smaller: sizes,
batches and updates, in single precision on a CPU, without processes for its data; as many
checkpoints are averaged as there are updates, instead of five; and of a comparison memory is not
measured, which starts a process for each system, no picture is drawn, which takes as long as all of
its systems, and where KEPT names systems the others are left out: those that another comparison has
as well. (That the programs accept the options of all of them is a test of ``test_recipes.py``.)
Text is made into words and subwords by one recipe of each kind (jieba and Moses, SentencePiece, one
that comes in subwords, summaries); that of the others is in words, and copied.
"""

import gzip
import random
import re

import pytest
from recipe_scripts import COMPARE, EXAMPLES, ROOT, bash, begun, copied

pytestmark = pytest.mark.slow

TINY = " ".join(
    f"--{side}-layers 1 --{side}-embed-dim 8 --{side}-ffn-embed-dim 8 --{side}-attention-heads 2"
    for side in ("encoder", "decoder")
)
# As many checkpoints as are averaged, none at the end of an epoch, which fairseq does not keep.
TINY += " --max-update $CHECKPOINTS --save-interval-updates 1 --batch-size 4 --update-freq 1 --cpu"
TINY += " --num-workers 0"
# Untrained models write until there is no more room; graphs need theirs. Where the last checkpoints
# are averaged none is validated for.
LIMITS = """
limits() {
    case "${words[*]}" in
    *translation_dag*) ;;
    *--keep-interval-updates*) echo --max-target-positions $ROOM --disable-validation ;;
    *) echo --max-target-positions $ROOM ;;
    esac
}
"""
SMALLER = """
smaller() {
    case ${words[*]} in
    average*" 5 --output"*) echo ${words[3]} $CHECKPOINTS ;;
    esac
}
"""
WORDS = {
    "en": "a man rides his bike , and the dog doesn't mind .",
    "de": "ein Mann fährt Rad , und der Hund stört's nicht .",
    "fr": "un homme fait du vélo , et le chien dort .",
    "ro": "un om merge cu bicicleta , iar câinele nu .",
    "zh": "一个 人 骑 自行车 ， 狗 不 介意 。",
    "ja": "自転@@ 車 に 乗る 人 と 犬 。",
    "summary": "man rides bike dog .",
    "article": "a man rides his bike through the town . a dog runs along .",
}
# Two signs a word, where the real one is not installed.
JIEBA = """
class Tokenizer:
    initialize = str

    def cut(self, line):
        return [line[i : i + 2] for i in range(0, len(line), 2)]


setLogLevel = str
"""
BLEU = r"^BLEU \d+\.\d\d \({}, 4 sentences, {}\): nrefs:1\|case:mixed\|eff:no\|tok:{}\|"


TOKENISED = BLEU.format("tokenised", "the log's references", "none")


def is_entry(script):
    """Whether a user starts the script; others are sourced."""
    return script.read_text(encoding="utf-8").startswith("#!") and script.name != "setup_env.sh"


@pytest.mark.parametrize("script", sorted(filter(is_entry, EXAMPLES.rglob("*.sh"))), ids=str)
def test_every_recipe_is_run(script):
    """Here, or by a file of tests of its own."""
    name = str(script.relative_to(EXAMPLES))
    if name.startswith("common/"):
        # Others call it.
        used = "".join(other.read_text() for other in EXAMPLES.rglob("*.sh") if other != script)
        assert f'bash "$COMMON/{script.name}"' in used
        return
    # "wmt14_en_de/hrt/train.sh" stands as {corpus}/hrt/train.sh.
    own = {"quickstart.sh": "recipes", "import/student.sh": "import_recipe"}
    own["measure/perplexity.sh"] = "perplexity_recipe"
    test = ROOT / f"tests/integration/test_{own.get(name, 'whole_recipes')}.py"
    assert name in test.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def start(forks, tmp_path_factory):
    """A function that runs a recipe, whose commands are forks and whose trainings are tiny; OUT is
    relative to its ``folder``."""
    modules = tmp_path_factory.mktemp("modules")
    (modules / "jieba.py").write_text(JIEBA)
    compare = modules / "compare.py"
    compare.write_text(COMPARE)
    # Everything is installed, which recipes ask a Python that takes a second for it.
    python = f'case $1 in *graph_statistics.py) set -- {compare} "$@";; -c) return 0;; esac'
    own = forks.of_a_shell(python=python)
    compared = f'python {compare} "${{words[@]}}" --batch-sizes 1; return'
    compared = f"if [ $1 = benchmark ]; then {compared}; fi; "
    for name, gone, more, instead in (
        ("fairseq-train", "--fp16", f"{TINY} $(limits)", LIMITS),
        ("fairseq-hrt", "--memory", "$(smaller)", SMALLER),
    ):
        body = own[f"BASH_FUNC_{name}%%"].replace('"$@"', f'"${{words[@]}}" {more}')
        kept = f'local word words=(); for word; do [ "$word" = {gone} ] || words+=("$word"); done;'
        if name == "fairseq-hrt":
            kept += compared
        own[f"BASH_FUNC_{name}%%"] = begun(body, instead + kept)
    settings = {
        "PYTHONPATH": str(modules), "PRECISION": "float32", "MERGES": "300", "SPEED_SENTENCES": "1",
        "REPEATS": "1", "THREADS": "1", "BATCHES": "1", "ROOM": "16", "CHECKPOINTS": "1",
        "KEPT": "",
        "UNDRAWN": "1",
    }  # fmt: skip
    folder = tmp_path_factory.mktemp("recipes")

    def run(recipe, *arguments, status=0, copies=True, **changes):
        given = {**(copied(own) if copies else own), **settings, **changes}
        shown = bash(EXAMPLES / recipe, *arguments, cwd=folder, check=not status, **given)
        assert shown.returncode == status, shown.stderr
        return shown.stdout

    run.folder = folder
    return run


def written(folder, *languages, parts=("train", "valid", "test")):
    """The folder, with raw text of these languages."""
    folder.mkdir()
    generator = random.Random(1)
    for part, lines in zip(parts, (40, 4, 4)):
        for language in languages:
            space = "" if language == "zh" else " "
            words = WORDS[language].split()
            text = "".join(
                space.join(generator.choices(words, k=generator.randint(3, 9))) + "\n"
                for _ in range(lines)
            )
            with gzip.open(folder / f"{part}.{language}.gz", "wt", encoding="utf-8") as file:
                file.write(text)
    return str(folder)


def test_wmt14_en_de(start):
    """HRT and Mask-Predict from one teacher; ctc from its translations; dag from raw targets."""
    raw = written(start.folder / "en-de", "en", "de")
    start("wmt14_en_de/prepare.sh", DATA=raw, OUT="wmt14")
    data = {"DATA": "wmt14/data-bin"}
    settings = {**data, "OUT": "wmt14/hrt", "CHECKPOINTS": "2"}
    for student in ("hrt", "mask_predict"):
        start("wmt14_en_de/hrt/train.sh", **settings, STUDENT=student)
        shown = start("wmt14_en_de/hrt/translate.sh", **settings, STUDENT=student)
        assert re.search(TOKENISED, shown, re.M)
    assert (start.folder / "wmt14/hrt/mask_predict/averaged.pt").is_file()
    settings = {**data, "OUT": "wmt14/ctc", "DISTILLED": "wmt14/hrt/distilled/data-bin"}
    start("wmt14_en_de/ctc/train.sh", **settings)
    assert re.search(TOKENISED, start("wmt14_en_de/ctc/translate.sh", **settings), re.M)
    settings = {**data, "OUT": "wmt14/dag"}
    start("wmt14_en_de/dag/train.sh", **settings)
    assert re.search(TOKENISED, start("wmt14_en_de/dag/translate.sh", **settings), re.M)


def test_wmt16_en_ro_and_ibdecoder(start):
    """A pair of both recipes; and the text of one that comes in subwords."""
    written(start.folder / "en-ro", "en", "ro")
    start("wmt16_en_ro/prepare.sh", DATA="en-ro", OUT="wmt16", SAMPLE="36")
    assert (start.folder / "wmt16/bpe/train.ro").read_text().count("\n") == 36
    # The same text is prepared in the same way: nothing is left to do.
    pair = {"SRC": "en", "TGT": "ro"}
    again = start("ibdecoder/prepare.sh", DATA="en-ro", OUT="wmt16", SAMPLE="36", **pair)
    assert again.count("finished before") == 4 and "\n+ " not in again
    pair = {"DATA": "wmt16/data-bin", "SRC": "ro", "TGT": "en"}
    settings = {**pair, "OUT": "wmt16/hrt"}
    start("wmt16_en_ro/hrt/train.sh", **settings)
    assert re.search(TOKENISED, start("wmt16_en_ro/hrt/translate.sh", **settings), re.M)
    settings = {**pair, "OUT": "wmt16/ib", "KD": "1", "TOKENS": "2"}
    start("ibdecoder/train.sh", **settings)
    shown = start("ibdecoder/translate.sh", **settings)
    figure = BLEU.format("detokenised", r"\S+/wmt16/raw/test\.en\.gz", "13a")
    assert re.search(figure, shown, re.M)
    written(start.folder / "en-ja", "en", "ja", parts=["train"])
    pair = {"SRC": "en", "TGT": "ja", "MERGES": "0", "SPLITS": "train"}
    start("ibdecoder/prepare.sh", DATA="en-ja", OUT="wat17", copies=False, **pair)
    folder = start.folder / "wat17"
    assert not list((folder / "bpe").glob("codes*"))
    words = {line.split()[0] for line in (folder / "data-bin/dict.ja.txt").open(encoding="utf-8")}
    assert {"自転@@", "bike", "車"} <= words


def test_wmt17_zh_en(start):
    """Words, subwords and a dictionary for each language; Chinese is scored by its characters."""
    written(start.folder / "zh-en", "zh", "en")
    start("wmt17_zh_en/prepare.sh", DATA="zh-en", OUT="wmt17", copies=False)
    folder = start.folder / "wmt17"
    words = (folder / "text/train.zh").read_text(encoding="utf-8").split()
    assert {len(word) for word in words} == {1, 2}
    data = folder / "data-bin"
    chinese, english = (
        {line.split()[0] for line in (data / f"dict.{name}.txt").open(encoding="utf-8")}
        for name in ("zh", "en")
    )
    assert chinese & set(words) and english and not chinese & set(WORDS["en"].split())
    merges = [(folder / f"bpe/codes.{name}").read_bytes() for name in ("zh", "en")]
    assert merges[0] != merges[1]
    settings = {"DATA": str(data), "OUT": "wmt17/hrt"}
    start("wmt17_zh_en/hrt/train.sh", **settings)
    assert re.search(TOKENISED, start("wmt17_zh_en/hrt/translate.sh", **settings), re.M)
    settings = {"DATA": str(data), "OUT": "wmt17/dag", "SRC": "en", "TGT": "zh"}
    start("wmt17_zh_en/dag/train.sh", **settings)
    shown = start("wmt17_zh_en/dag/translate.sh", **settings, STRATEGY="joint-viterbi")
    assert re.search(BLEU.format("detokenised", r"\S+/wmt17/raw/test\.zh\.gz", "zh"), shown, re.M)


def test_wmt22_en_de(start):
    written(start.folder / "pieces", "en", "de")
    settings = {"DATA": "pieces", "OUT": "wmt22", "MERGES": "45", "SENTENCEPIECE": "learn"}
    start("wmt22_en_de/prepare.sh", copies=False, **settings)
    settings = {"DATA": "wmt22/data-bin", "OUT": "wmt22/hrt", "FP16": "", "ROOM": "60"}
    start("wmt22_en_de/hrt/train.sh", **settings)
    figure = BLEU.format("detokenised", r"\S+/wmt22/raw/test\.de\.gz", "13a")
    assert re.search(figure, start("wmt22_en_de/hrt/translate.sh", **settings), re.M)
    # As the targets are published, but by an ensemble of one's own: other data of the same form.
    teacher = str(start.folder / "wmt22/hrt/at/averaged.pt")
    settings.update(OUT="wmt22/ensemble", TEACHERS=f"{teacher}:{teacher}")
    settings["BASH_FUNC_fairseq-train%%"] = '() { echo "from $1"; exit 3; }'
    shown = start("wmt22_en_de/hrt/train.sh", status=3, **settings)
    taught = start.folder / "wmt22/ensemble/distilled/data-bin"
    assert shown.endswith(f"from {taught}\n")
    for own in (start.folder / "wmt22/data-bin").iterdir():
        if own.name.startswith("dict"):
            assert (taught / own.name).read_bytes() == own.read_bytes()
        elif own.name.startswith(("train", "valid")) and own.suffix == ".idx":
            # The number of sentences stands after magic, version and type.
            assert (taught / own.name).read_bytes()[18:26] == own.read_bytes()[18:26]
            assert (taught / own.name).with_suffix(".bin").stat().st_size > 0


def test_multi30k(start):
    """Every family from one teacher, and their comparisons; options are chosen on the validation
    set where that is asked for."""
    parts = ("train", "val", "test_2016_flickr")
    written(start.folder / "multi30k", "en", "de", parts=parts)
    settings = {"OUT": "captions"}
    start("multi30k/prepare.sh", DATA="multi30k", **settings)
    for recipe in (
        "multi30k/hrt/train_at.sh",
        "multi30k/hrt/train_hrt.sh",
        "multi30k/bidirectional/train.sh",
        "multi30k/dag/train.sh",
        "multi30k/ctc/train.sh",
    ):
        start(recipe, **settings)
    folder = start.folder / "captions"
    for recipe, compared, changes in (
        ("multi30k/hrt/benchmark.sh", "comparison",
         {"KEPT": r"AT greedy|HRT k=2 \(1,1"}),
        ("multi30k/bidirectional/benchmark.sh", "comparison_bidirectional",
         {"KEPT": "AT greedy|h=2 .* beam", "MODELS": "2x1", "TUNE": "1",
          "LENGTH_PENALTIES": "0.9"}),
        ("multi30k/dag/benchmark.sh", "comparison_dag",
         {"KEPT": r"AT beam 5 \(fairseq|AT greedy,|DAG joint|FA-DAT look"}),
        ("multi30k/ctc/benchmark.sh", "comparison_ctc",
         {"KEPT": r"AT beam 5 \(fairseq|AT greedy,|CTC greedy|CTC \(n-grams\) beam"}),
        ("multi30k/dag/sweep.sh", "sweep_dag", {"SCALES": "2"}),
        ("multi30k/jacobi/benchmark.sh", "comparison_jacobi_1",
         {"KEPT": "AT greedy|PGJ b=3|frontier w=3 n-grams|AT .*drafts",
          "DRAFTS": f"hrt={folder}/hrt/checkpoint_last.pt"}),
    ):  # fmt: skip
        assert "|tok:13a|" in start(recipe, **settings, **changes), recipe
        assert "|tok:13a|" in (folder / compared / "table.md").read_text(encoding="utf-8")
    assert (folder / "tuned/h_2_c_1_beam_4/best").read_text() == "lenpen=0.9\n"
    assert "FA-DAT" in (folder / "sweep_dag/graph_statistics.md").read_text(encoding="utf-8")
    # Models that are not there are left out.
    (start.folder / "less").mkdir()
    for name in ("at", "bidirectional_2x1", "bpe", "data-bin", "raw"):
        (start.folder / "less" / name).symlink_to(folder / name)
    kept = "AT greedy|native IB"
    shown = start("multi30k/compare_all.sh", OUT="less", KEPT=kept)
    table = (start.folder / "less/comparison_all/table.md").read_text(encoding="utf-8")
    assert "|tok:13a|" in shown and "IBDecoder" in table and "HRT" not in table


def compared_summaries(shown):
    """The table of a recipe for summaries."""
    table = (ROOT / re.search(r"results: (\S+)", shown)[1]).read_text(encoding="utf-8")
    assert "| ROUGE-L |" in table and "ROUGE: F1 by rouge-score, Porter's stemmer" in table
    assert "IB+SA(2)" in table


def test_summaries_as_in_the_paper(start):
    """Of one text: the second corpus takes over what the first has prepared, and its Transformer,
    and trains others on the summaries of that."""
    settings = {"DATA": written(start.folder / "articles", "article", "summary"), "OUT": "papers"}
    compared_summaries(
        start("gigaword/bidirectional/run.sh", **settings, TARGETS="raw",
              KEPT=r"AT greedy|IB\+SA\(2\) greedy")
    )  # fmt: skip
    settings.update(KEPT=r"AT greedy|AT beam 4,|IB\+SA\(2\) beam", ADOPT="1")
    shown = start("cnn_dailymail/bidirectional/run.sh", **settings)
    compared_summaries(shown)
    assert shown.count("finished before") == 4


def test_summaries_of_a_generated_corpus(start):
    settings = {"OUT": "summaries", "TRAIN": "40", "VALID": "4", "TEST": "4", "ROOM": "32"}
    settings["KEPT"] = r"AT greedy|IB\+SA\(2\) greedy"
    compared_summaries(start("summaries/bidirectional/run.sh", copies=False, **settings))
