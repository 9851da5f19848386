# The contents of a recipe's input, as words for the SETTINGS of a stage, so that other content under an old name is noticed. Sourced by recipe.sh.
#
#   contents FILE…                  of files; one that is packed (.gz) counts as what is in it
#   contents_of_text FOLDER         of raw text: its parts SPLITS (train valid test) in SRC and TGT
#   contents_of_data FOLDER SPLIT…  of what fairseq-preprocess has written, from SRC to TGT or from TGT to SRC; of shards, FOLDER:FOLDER…, the
#                                   later ones need the first SPLIT alone
#   contents_of_models FILE         of a checkpoint, or of an ensemble, FILE:FILE…
#   text_file FOLDER NAME           the file of that name, plain or gzip
#
# Input that was removed after its use counts as what it was when it was there. DRY_RUN=1 looks at nothing.

contents() {
    local file
    if [ -n "$DRY_RUN" ]; then return; fi
    for file; do
        case $file in
        *.gz) gzip -dc -- "$file" ;;
        *) cat -- "$file" ;;
        esac | cksum || return 1
    done | cksum | tr ' ' -
}

# recalled PATH…: what was noted of paths none of which is there any longer; fails where one is, or nothing was noted
recalled() {
    local path
    for path; do
        if [ -e "$path" ]; then return 1; fi
    done
    cat "$(note_of "$@")" 2>/dev/null
}

note_of() { echo "$OUT/.stages/contents.$(printf '%s\n' "$SRC" "$TGT" "$@" | cksum | tr ' ' -)"; }

# noted NOTE FILE…: contents of the files, which are noted
noted() {
    local note=$1 found
    shift
    found=$(contents "$@") || return 1
    # Nothing is lost where a folder of results cannot be written to any longer.
    { mkdir -p "$OUT/.stages" && echo "$found" >"$note.$$" && mv "$note.$$" "$note"; } 2>/dev/null || true
    echo "$found"
}

text_file() {
    if [ -f "$1/$2" ] && [ -f "$1/$2.gz" ]; then fail "$1 has both $2 and $2.gz: remove the one that is not meant"; fi
    if [ -f "$1/$2.gz" ]; then
        echo "$1/$2.gz"
    elif [ -f "$1/$2" ] || [ -n "$DRY_RUN" ]; then
        # A dry run shows the commands also for data that are not there yet.
        echo "$1/$2"
    else
        fail "$1 has neither $2 nor $2.gz"
    fi
}

# These three are called as $(contents_of_…), where bash does not leave by itself when a command fails.
contents_of_text() {
    local split language file files=()
    if [ -n "$DRY_RUN" ] || recalled "$1"; then return; fi
    for split in ${SPLITS:-train valid test}; do
        for language in $SRC $TGT; do
            file=$(text_file "$1" "$split.$language") || exit 1
            files+=("$file")
        done
    done
    noted "$(note_of "$1")" "${files[@]}"
}

contents_of_data() {
    local folders folder splits split pair other language files=()
    IFS=: read -ra folders <<<"$1"
    if [ -n "$DRY_RUN" ] || recalled "${folders[@]}"; then return; fi
    splits=("${@:2}")
    files=("${folders[0]}/dict.$SRC.txt" "${folders[0]}/dict.$TGT.txt")
    for folder in "${folders[@]}"; do
        for split in "${splits[@]}"; do
            pair=""
            for other in "$SRC-$TGT" "$TGT-$SRC"; do
                if [ -f "$folder/$split.$other.$SRC.idx" ] && [ -f "$folder/$split.$other.$TGT.idx" ]; then
                    pair=$other
                    break
                fi
            done
            if [ -z "$pair" ]; then
                fail "$folder has no $split.$SRC-$TGT.$SRC.idx and .$TGT.idx, which fairseq-preprocess writes: prepare the data, or name their folder"
            fi
            for language in "$SRC" "$TGT"; do files+=("$folder/$split.$pair.$language.bin" "$folder/$split.$pair.$language.idx"); done
        done
        splits=("$2")
    done
    noted "$(note_of "${folders[@]}")" "${files[@]}"
}

contents_of_models() {
    local models model
    IFS=: read -ra models <<<"$1"
    if [ -n "$DRY_RUN" ] || recalled "${models[@]}"; then return; fi
    for model in "${models[@]}"; do
        if [ ! -f "$model" ]; then fail "there is no checkpoint $model: train it first, or name another one"; fi
    done
    noted "$(note_of "${models[@]}")" "${models[@]}"
}
