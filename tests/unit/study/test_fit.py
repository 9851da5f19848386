"""examples/study/fit.py: how probable models find what they learnt, and what they did not."""

import fit
import pytest
from mutual_information import estimate


def results():
    """A baseline and a model with one nat a subword more; unseen pairs have twice the baseline's
    nats."""
    found = []
    for name, more in (("AT", 0.0), ("a|b", 1.0)):
        columns = []
        for nats in (0.5, 1.0):
            baseline = [[-nats, -nats], [-nats]]
            own = [[score - more for score in sentence] for sentence in baseline]
            columns.append(estimate(name, own, baseline))
        found.append(fit.Fit(name, *columns))
    return found


def test_figures_are_per_subword_and_beside_the_baseline():
    table = fit.markdown(results()).split("\n")
    assert table[2] == "| AT | 0.500 | 1.000 |  |  |"
    assert table[3].endswith("b | 1.500 | 2.000 | 1.00 (1.00–1.00) | 1.00 (1.00–1.00) |")
    assert table[5].endswith(
        "how much more than AT, with 95 % intervals over sentences; 3 and 3 subwords."
    )


def test_two_models_of_one_name_are_refused():
    arguments = ["--learnt", "a", "--unseen", "b", "--baseline", "name=AT,path=x"]
    options = fit.build_parser().parse_args([*arguments, "--system", "name=AT,path=y"])
    with pytest.raises(ValueError, match="two models have one name: AT, AT"):
        fit.run(options)
