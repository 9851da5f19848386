/* What comes in, checked; each function books an error that names what is wrong. */
#ifndef FH_CHECKS_H
#define FH_CHECKS_H

#include "search.h"

int fh_check_options(const fh_model *model, const fh_options *options, fh_error *error);
int fh_check_sentence(const fh_model *model, const int32_t *tokens, int64_t length, int32_t number,
                      fh_error *error);
/* offsets: [count + 1]; what: a sentence, for example. */
int fh_check_offsets(const int64_t *offsets, int64_t count, const char *what, fh_error *error);
/* The first words of each sentence, to be freed; NULL and an error. */
fh_beginning *fh_take_first_words(const fh_model *model, const fh_first_words *first,
                                  int32_t sentences, fh_error *error);
/* given [sentences]: the translations of each sentence. */
int fh_take_targets(const fh_model *model, const fh_targets *targets, int32_t sentences,
                    fh_given *given, fh_error *error);

#endif
