"""No output takes the place of an input or of another output."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.cli.jobs import plan_jobs


@pytest.mark.parametrize("other", ["x.partial", "x.partial.json"])
def test_an_output_takes_no_name_that_another_one_needs(tmp_path, other):
    for name in ("x", other):
        (tmp_path / name).write_text("a\n")
    inputs = [tmp_path / "x", tmp_path / other]
    assert len(plan_jobs(inputs, tmp_path / "out")) == 2
    for order in (inputs, inputs[::-1]):
        with pytest.raises(
            ValueError, match=f"would both be written to .*{re.escape(other)}: rename one"
        ):
            plan_jobs(order, tmp_path / "out", resume=True)
    with pytest.raises(ValueError, match=f"{re.escape(other)} is an input"):
        plan_jobs(inputs[1:], tmp_path / "x", resume=True)


def test_a_bundle_is_given_before_the_files(tmp_path):
    (tmp_path / "bundle.json").write_text("{}")
    with pytest.raises(
        ValueError, match=f"^{tmp_path} is a bundle: give it first, before the input files$"
    ):
        plan_jobs([tmp_path], None)


@given(
    st.lists(
        st.sampled_from(["a/x", "b/x", "a/y", "c/../a/x", "link/x", "b/z"]), min_size=2, max_size=4
    )
)
def test_no_two_inputs_share_an_output(tmp_path_factory, names):
    folder = tmp_path_factory.mktemp("plan")
    for name in ("a/x", "b/x", "a/y", "b/z", "c/w"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    (folder / "link").symlink_to("b")
    sources = [folder / name for name in names]
    try:
        jobs = plan_jobs(sources, folder / "out")
    except ValueError as error:
        assert "would both be written" in str(error) and len(
            {Path(name).name for name in names}
        ) < len(names)
    else:
        assert len({job.target for job in jobs}) == len(names)
