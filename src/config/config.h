/* The configuration file: YAML to a plain struct, with the place of everything in it.
 *
 *     tree.c       a file's YAML as nodes that know their line and column (libyaml)
 *     tree_none.c  the same in a build without libyaml: says so
 *     place.c      columns within a value, and the list of mistakes
 *     sections.c   nodes to listeners, stores, limits and settings
 *     rule_sections.c  nodes to rules
 *     override_sections.c  nodes to overrides and lists
 *     config.c     reading files, includes, and whether they have changed
 *     keys.c       the keys with a form of their own, for the reader, the manual and the schema
 *
 * This layer knows which keys there are and what form their values have. What a value means (is
 * this text a limit, that one a number of threads) is checked by the caller that uses it, which
 * reports a mistake with config_blame. So the daemon's options are keys of the file without a line
 * here: the caller hands over its list of settings.
 *
 * Every mistake is reported, not only the first one. What a file can cost is bounded by the
 * numbers below.
 */
#ifndef WEIR_CONFIG_CONFIG_H
#define WEIR_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

#define CONFIG_FILE_BYTES (64 << 20) /* of one file */
#define CONFIG_FILES      256        /* with all that are included */
#define CONFIG_NODES      4000000    /* keys, values, lists and maps of all files */
#define CONFIG_DEPTH      16         /* lists and maps within each other */
#define CONFIG_ANCHORS    100        /* of one file, ... */
#define CONFIG_ALIASES    1000       /* ... and references to them */
#define CONFIG_MISTAKES   100        /* that are reported; more are counted */
#define CONFIG_TEXT       65536      /* bytes of one value */

/* ---- Keys ------------------------------------------------------------------------------------ */

enum config_type {
    CONFIG_WORDS,    /* text of any kind                     */
    CONFIG_YES_NO,   /* true or false                        */
    CONFIG_CHOICE,   /* one of `words`, a|b|c                */
    CONFIG_COUNT,    /* a whole number; k and M may follow   */
    CONFIG_BYTES,    /* 65536, 64KiB, 1MiB                   */
    CONFIG_DURATION, /* 500ms, 1m30s                         */
    CONFIG_PATIENCE, /* a duration, or forever               */
    CONFIG_PART,     /* 1/16                                 */
    CONFIG_FORM,     /* a map or a list, as keys.c describes */
};

struct config_key {
    const char *name; /* "threads"; "log.level" is level in the map log */
    enum config_type type;
    const char *words;
    int64_t least, most;
    unsigned times; /* above 1: a list of at most so many is possible too */
    bool live;      /* a reload may change it */
    const char *expected, *usual, *help;
};

/* The keys with a form of their own; ends with an all-zero row. */
extern const struct config_key CONFIG_FORMS[];

/* ---- What a file says ------------------------------------------------------------------------ */

struct config_node;

/* A value and where it is. `text` NULL: there is none. */
struct config_text {
    char *text;
    const struct config_node *at;
};

/* The lists are in the order of the files. */
struct config_value {
    struct config_value *next;
    const struct config_key *key; /* of the caller's list */
    struct config_text value;
};

struct config_listener {
    struct config_listener *next;
    struct config_text address, mode, group, role, tls;
};

struct config_store {
    struct config_store *next;
    struct config_text name, url, password_file, password_env;
};

struct config_limit {
    struct config_limit *next;
    struct config_text name, limit, store;
};

/* The override of a key or a prefix. `name` is shared by all that are written together. */
struct config_override {
    struct config_override *next;
    const struct config_text *name; /* of its limit */
    struct config_text key, limit;
    bool prefix;
};

/* An entry of a list. */
struct config_entry {
    struct config_entry *next;
    const struct config_text *name; /* of its limit */
    struct config_text entry;
    bool allow; /* else it is denied */
};

/* A condition of a rule: path, path-prefix, method, header.x-api-key, ... */
struct config_condition {
    struct config_condition *next;
    struct config_text field;
    struct config_text *value;
    size_t values;
};

/* A limit that a rule applies. */
struct config_apply {
    struct config_apply *next;
    struct config_text limit, key, cost;
};

struct config_rule {
    struct config_rule *next;
    const struct config_node *at;
    struct config_text name, missing, final;
    struct config_condition *conditions;
    struct config_apply *applies;
    bool unread; /* a limit that it applies is left out, because of a mistake */
};

struct config_mistake {
    const char *file;
    int line, column; /* from 1; 0: the file as a whole */
    char text[600];
};

struct config {
    struct config_value *values;
    struct config_listener *listeners;
    struct config_store *stores;
    struct config_limit *limits;
    struct config_override *overrides;
    struct config_entry *entries;
    struct config_rule *rules;
    struct config_text store; /* the daemon's own */
    size_t mistakes;          /* at most CONFIG_MISTAKES of them are in `mistake` */
    struct config_mistake *mistake;
    struct config_inside *inside;
};

/* Reads the file and what it includes; `settings` ends with an all-zero row and outlives the
 * result. NULL: out of memory. What can be understood of a file with mistakes is there. */
struct config *config_open(const char *path, const struct config_key *settings);
/* The same of a file's bytes, for tests: what they include is not read. */
struct config *config_open_bytes(const char *path, const char *bytes, size_t len,
                                 const struct config_key *settings);
void config_close(struct config *c);

/* Frees the overrides and lists, and the bytes of the files. They are NULL then, and none of their
 * texts and places may be used any more, no columns within a value either. */
void config_forget_overrides(struct config *c);

/* Reports a mistake in a value, at byte `column` (from 1) of its text; 0 is the value as a whole.
 * A NULL node is the file as a whole. */
void config_blame(struct config *c, const struct config_node *at, int column, const char *format,
                  ...) __attribute__((format(printf, 4, 5)));
/* Sorts the mistakes by file and place. */
void config_sort(struct config *c);
/* "weir.yaml:12:9" */
#define CONFIG_PLACE 512
const char *config_place(const struct config_node *at, char text[CONFIG_PLACE]);
/* "; did you mean 'x'?" if the word is nearly `name`, and nothing is in the text yet. */
#define CONFIG_NEAR 160
void config_near(char text[CONFIG_NEAR], const char *word, const char *name);

/* A number that is another one when a file of these, or a list of the files that an include names,
 * has changed. */
uint64_t config_stamp(const struct config *c);
/* The number that config_stamp had when the files were read. */
uint64_t config_stamp_read(const struct config *c);
/* How many files were read. */
size_t config_files(const struct config *c);

#endif
