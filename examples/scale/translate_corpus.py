"""Translates a corpus on a Ray cluster: shards, each on an actor that holds one loaded bundle.

    python examples/scale/translate_corpus.py bundle corpus.txt --out run \\
        --output corpus.translated.txt --workers 8
    python examples/scale/translate_corpus.py bundle corpus.parquet --column text --out run \\
        --output translated.parquet

The folder --out and the bundle have to be on a file system that all machines share. Interrupted and
started again it continues with the shards that are missing; a worker that dies is replaced and its
shard made again. The result is in the order of the corpus and has the bytes that `fairseq-hrt
translate` writes.
"""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from shards import Shard, is_finished, join_shards, split_corpus, translate_shard  # noqa: E402


class TranslatesShards:
    """An actor of Ray Data: one bundle, loaded once."""

    def __init__(self, bundle, out, made_with, threads):
        sys.path.insert(0, str(HERE))
        import fairseq_hrt

        self.model = fairseq_hrt.from_pretrained(bundle, threads=threads, **made_with["options"])
        self.out, self.made_with = Path(out), made_with

    def __call__(self, batch):
        found = []
        for values in zip(*(batch[name] for name in ("number", "lines", "source", "path"))):
            shard = Shard(int(values[0]), int(values[1]), str(values[2]), str(values[3]))
            found.append(
                translate_shard(shard, self.out, self.made_with, self.model.translate)["number"]
            )
        return {"number": found}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path)
    parser.add_argument(
        "corpus", type=Path, help="text, one sentence a line (plain or gzip), or Parquet"
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="folder for shards; an interrupted run continues there",
    )
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        help="file for all translations; with the sources if it ends in .parquet",
    )
    parser.add_argument(
        "--column", default="text", help="column of a Parquet corpus (default: %(default)s)"
    )
    parser.add_argument("--workers", type=int, default=2, help="actors (default: %(default)s)")
    parser.add_argument(
        "--threads", type=int, default=1, help="threads of each actor (default: %(default)s)"
    )
    parser.add_argument("--shard-lines", type=int, default=10000, help="default: %(default)s")
    parser.add_argument(
        "--address", help="address of a Ray cluster (default: a new one on this machine)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        help="decoding option; repeatable",
    )
    options = parser.parse_args()
    try:
        run(options)
    except (ValueError, OSError) as error:
        parser.exit(2, f"error: {error}\n")


def run(options):
    """Splits, translates what is missing, joins."""
    from fairseq_hrt.cli.settings import read_settings
    from fairseq_hrt.native.bundles.bundle import load_bundle

    bundle = load_bundle(options.bundle, for_runtime=True)
    made_with = {"bundle": bundle.content_hash(), "options": read_settings(options.set)}
    out = options.out.resolve()
    shards = split_corpus(options.corpus, out, options.shard_lines, options.column)
    missing = [shard for shard in shards if not is_finished(shard, out, made_with)]
    sys.stderr.write(f"{len(shards)} shards, {len(missing)} of them to translate\n")
    if missing:
        translate(bundle.folder, missing, out, made_with, options)
    join_shards(shards, out, options.output)


def translate(bundle, missing, out, made_with, options):
    """Has the missing shards translated. Ray Data keeps no order: it is in the shards' names."""
    import ray

    ray.init(
        address=options.address,
        num_cpus=None if options.address else options.workers * options.threads + 1,
        include_dashboard=False,
    )
    done = (
        ray.data.from_items([asdict(shard) for shard in missing], override_num_blocks=len(missing))
        .map_batches(
            TranslatesShards,
            fn_constructor_args=(str(bundle), str(out), made_with, options.threads),
            batch_size=1,
            num_cpus=options.threads,
            compute=ray.data.ActorPoolStrategy(size=options.workers),
        )
        .take_all()
    )
    ray.shutdown()
    lost = {shard.number for shard in missing} - {row["number"] for row in done}
    if lost:
        raise ValueError(f"shards {sorted(lost)} were not translated: start again")


if __name__ == "__main__":
    main()
