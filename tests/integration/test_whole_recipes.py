"""Every recipe from raw text to the figure that it prints, with tiny text and models.

The recipes are run as they stand. Only what ``fairseq-train`` is given is made smaller: sizes,
batches, updates, single precision on a CPU.
"""

import gzip
import re
import shlex
import random

import pytest
from recipe_scripts import EXAMPLES, bash

pytestmark = pytest.mark.slow

TINY = shlex.split(
    " ".join(
        f"--{side}-layers 1 --{side}-embed-dim 8 --{side}-ffn-embed-dim 8 --{side}-attention-heads 2"
        for side in ("encoder", "decoder")
    )
    # As many checkpoints as are averaged.
    + " --max-update 8 --save-interval-updates 1 --batch-size 4"
    " --update-freq 1 --num-workers 0 --cpu"
)
WORDS = {
    "en": "a man rides his bike , and the dog doesn't mind .".split(),
    "de": "ein Mann fährt Rad , und der Hund stört's nicht .".split(),
    "ro": "un om merge cu bicicleta , iar câinele nu .".split(),
    "zh": "一个 人 骑 自行车 ， 狗 不 介意 。".split(),
    "ja": "自転@@ 車 に 乗る 人 と 犬 。".split(),
    "summary": "man rides bike dog .".split(),
    "article": "a man rides his bike through the town . a dog runs along .".split(),
}


def written(folder, *languages):
    """The folder with raw text of these languages."""
    folder.mkdir()
    generator = random.Random(1)
    for split, lines in (("train", 40), ("valid", 4), ("test", 4)):
        for language in languages:
            joint = "" if language == "zh" else " "
            text = "".join(
                joint.join(generator.choices(WORDS[language], k=generator.randint(3, 9))) + "\n"
                for _ in range(lines)
            )
            with gzip.open(folder / f"{split}.{language}.gz", "wt", encoding="utf-8") as file:
                file.write(text)
    return folder


@pytest.fixture
def start(forks, tmp_path):
    """A function that runs a recipe, whose commands are forks and whose trainings are tiny."""
    own = forks.of_a_shell()
    train = own["BASH_FUNC_fairseq-train%%"].replace('"$@"', '"${words[@]}" ' + shlex.join(TINY))
    own["BASH_FUNC_fairseq-train%%"] = train.replace(
        "{",
        '{ local word words=(); for word; do [ "$word" = --fp16 ] || words+=("$word"); done;',
        1,
    )

    def run(recipe, *arguments, **settings):
        return bash(EXAMPLES / recipe, *arguments, cwd=tmp_path, **own, **settings).stdout

    return run


def test_wmt14_hrt(start, tmp_path):
    raw = written(tmp_path / "raw", "en", "de")
    start("wmt14_en_de/prepare.sh", DATA="raw", OUT="data", MERGES="30")
    start("wmt14_en_de/hrt/train.sh", DATA="data/data-bin", OUT="hrt")
    print(start("wmt14_en_de/hrt/translate.sh", DATA="data/data-bin", OUT="hrt"))
    start("wmt14_en_de/hrt/train.sh", DATA="data/data-bin", OUT="hrt", STUDENT="mask_predict")
    print(
        start(
            "wmt14_en_de/hrt/translate.sh", DATA="data/data-bin", OUT="hrt", STUDENT="mask_predict"
        )
    )
