"""Codes of languages."""

from fairseq_hrt.native.text.languages import language_of, standard


def test_codes_of_languages():
    for codes, found in (
        ("de de_DE DE-AT deu ger deu_Latn", "de"), ("zh zh_CN zho_Hans cmn zt", "zh"),
        ("pt pt_BR por_Latn pb pt-PT", "pt"), ("nb nob_Latn no nor", "no"), ("kik_Latn ki", "kik"),
    ):  # fmt: skip
        assert {language_of(code) for code in codes.split()} == {found}
    for same in (("zh", "zh-Hans", "zho_Hans"), ("zt", "zh_Hant"), ("pb", "pt_BR", "por-br")):
        assert len({standard(code) for code in same}) == 1
    assert standard("Tlh_X") == "tlh-x" and standard("pt") != standard("pb")
    assert standard("zh") != standard("zt") and standard("de_DE") != standard("de")
