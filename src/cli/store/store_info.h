/* What a state file contains, gathered without disturbing the processes that use it, and
 * printed. */
#ifndef WEIR_CLI_STORE_STORE_INFO_H
#define WEIR_CLI_STORE_STORE_INFO_H

#include "cli/store/store_image.h"
#include "cli/store/store_keys.h"
#include "cli/store/store_users.h"

struct store_policy {
    char name[WEIR_NAME_MAX];
    char *limit;       /* canonical text */
    int64_t since_ns;  /* since when it is in force */
    uint32_t versions; /* how many are kept */
};

struct store_table {
    size_t state_bytes;
    uint64_t bytes;
    struct store_keys keys;
};

struct store_info {
    const char *path;
    int error;            /* the first error, or 0 */
    struct weir_diag why; /* its message */

    bool readable; /* the header is sound; else the fields below are empty */
    struct store_image image;
    int64_t now_ns;
    struct store_users users;
    uint64_t unfinished;
    struct store_policy *policy; /* [policies] */
    uint64_t policies;
    struct store_table table[WEIR__SIZE_CLASSES];
    uint32_t tables;
};

/* False: out of memory. */
bool store_info_open(struct store_info *info, const char *path);
void store_info_close(struct store_info *info);

void store_info_print(const struct store_info *info, bool colour);
void store_info_print_json(const struct store_info *info);

/* The number of live keys in all tables. */
uint64_t store_info_live(const struct store_info *info);

/* Prints a line of a report: a name and its value. */
__attribute__((format(printf, 2, 3))) void store_print_line(const char *what, const char *format,
                                                            ...);

#endif
