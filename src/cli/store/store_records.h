/* The policies of a state file. */
#ifndef WEIR_CLI_STORE_STORE_RECORDS_H
#define WEIR_CLI_STORE_STORE_RECORDS_H

#include "cli/store/store_image.h"

/* How many tags, scopes and versions were given out, and when the store was created. */
struct store_counts {
    uint64_t tags, scopes, versions;
    int64_t created_ns; /* 0: not known */
};

/* 0, or WEIR_EFORMAT: the directory contradicts the header. */
int store_records_check(const struct store_image *m, struct weir_diag *why);

struct store_counts store_records_counts(const struct store_image *m);

/* Copies the i-th record of a checked directory: 1; or 0 if there is no policy; or WEIR_EFORMAT if
 * the record is damaged. */
int store_records_get(const struct store_image *m, uint64_t i, struct weir__record *r,
                      struct weir_diag *why);

/* The number of policies, including damaged ones. */
uint64_t store_records_used(const struct store_image *m);

#endif
