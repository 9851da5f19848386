"""Codes of languages: those of bundles, of LibreTranslate and of the language detector."""

# Two letters (ISO 639-1), or the code that py3langid has → other codes of the language: of three
# letters (ISO 639-2 and 639-3, as NLLB has them) and older ones of two letters.
_OTHERS = """
af afr; am amh; an arg; ar ara arb; as asm; az aze azj; ba bak; be bel; bg bul; bn ben; br bre;
bs bos; ca cat; cs ces cze; cy cym wel; da dan; de deu ger; dz dzo; el ell gre; en eng; eo epo;
es spa; et est ekk; eu eus baq; fa fas per pes; fi fin; fo fao; fr fra fre; fy fry; ga gle; gd gla;
gl glg; gu guj; ha hau; he heb iw; hi hin; hr hrv; ht hat; hu hun; hy hye arm; id ind in; ig ibo;
is isl ice; it ita; ja jpn; jv jav jw; ka kat geo; kik ki; kk kaz; km khm; kn kan; ko kor;
ku kur kmr; ky kir; la lat; lb ltz; lg lug; ln lin; lo lao; lt lit; lv lav lvs; mg mlg plt;
mk mkd mac; ml mal; mn mon khk; mr mar; ms msa may zsm; mt mlt; my mya bur; ne nep npi; nl nld dut;
nn nno; no nor nob nb; oc oci; om orm gaz; or ori ory; pa pan; pl pol; ps pus pbt; pt por;
qu que quy; ro ron rum mo; ru rus; rw kin; sa san; se sme; si sin; sk slk slo; sl slv; sn sna;
so som; sq sqi alb als; sr srp; st sot; sv swe; sw swa swh; ta tam; te tel; tg tgk; th tha; tk tuk;
tl tgl fil; tr tur; tt tat; ug uig; uk ukr; ur urd; uz uzb uzn; vi vie; vo vol; wa wln; xh xho;
yo yor; zh zho chi cmn; zu zul
"""
_SHORT = {other: code for code, *others in map(str.split, _OTHERS.split(";")) for other in others}
# {code: standard code} of LibreTranslate's languages with two codes; a request may name either.
_ALIASES = {"pb": "pt-br", "zh": "zh-hans", "zt": "zh-hant"}


def standard(code: str) -> str:
    """One spelling for all codes of a language, in lower case, with ``-`` between the parts:
    ``de_DE`` → ``de-de``, ``zho_Hans`` and ``zh`` → ``zh-hans``, ``pb`` → ``pt-br``. Of an
    unknown code only case and separators are changed."""
    language, *rest = code.lower().replace("_", "-").split("-")
    joined = "-".join([_SHORT.get(language, language), *rest])
    return _ALIASES.get(joined, joined)


def language_of(code: str) -> str:
    """The code of a language without country and script, as py3langid has it: ``de_DE`` and
    ``deu_Latn`` → ``de``. Of an unknown code the first part, in lower case."""
    return standard(code).partition("-")[0]
