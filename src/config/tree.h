/* A file's YAML as nodes, for the files of this layer. */
#ifndef WEIR_CONFIG_TREE_H
#define WEIR_CONFIG_TREE_H

#include "config/config.h"

enum config_node_kind { CONFIG_SCALAR, CONFIG_LIST, CONFIG_MAP };
enum config_style { CONFIG_PLAIN, CONFIG_SINGLE, CONFIG_DOUBLE, CONFIG_LITERAL, CONFIG_FOLDED };

struct config_file {
    struct config_file *next;
    const char *path;
    char *bytes; /* of the file, for columns; NUL-terminated */
    size_t len;
    int number;     /* in the order of reading */
    uint64_t stamp; /* of the file, before its bytes were read */
    bool included;
    struct config_node *root; /* or NULL */
};

struct config_node {
    enum config_node_kind kind;
    enum config_style style;
    bool whole;       /* its end was read */
    bool again;       /* a key that is in the map already: it is ignored */
    int line, column; /* from 1, in characters */
    size_t index;     /* characters of the file before it */
    const struct config_file *file;
    char *text;                              /* a scalar's; never NULL there */
    struct config_node *first, *last, *next; /* within; of a map: key, value, key, value */
    size_t n;
};

struct config_chunk;

/* What only this layer sees of a struct config. */
struct config_inside {
    const char *path;
    const struct config_key *settings;
    struct config_file *files, **files_end;
    int files_n;
    struct config_text *include; /* patterns, in full */
    size_t includes;
    uint64_t stamp;                          /* as the files were read */
    struct config_chunk *chunks, *temporary; /* temporary: freed by config_forget_overrides */
    bool in_temporary;                       /* config_take takes from there */
    bool temporary_is_used;                  /* a node outside refers to one in it, so it stays */
    size_t nodes;
    bool exhausted; /* there was no memory for something */
    struct config_value **values_end;
    struct config_listener **listeners_end;
    struct config_store **stores_end;
    struct config_limit **limits_end;
    struct config_override **overrides_end;
    struct config_entry **entries_end;
    struct config_rule **rules_end;
};

/* Memory that lives as long as the config, or until config_forget_overrides; zeroed. NULL: there is
 * none, and config_open fails. */
void *config_take(struct config *c, size_t bytes);
char *config_copy(struct config *c, const char *bytes, size_t len);

/* Reads the YAML of the file; mistakes are reported, and what is before them is in the tree. */
void config_tree(struct config *c, struct config_file *f);

/* Reads the sections of the file. */
void config_sections(struct config *c, struct config_file *f);

/* ---- For the readers of sections (sections.c) ------------------------------------------------ */

/* A word as messages show it. The text is valid until the next call. */
const char *config_quoted(const char *word);
/* Nothing behind a key. */
bool config_is_nothing(const struct config_node *n);
/* The text of a single value; without one, a mistake and no text. */
struct config_text config_text_of(struct config *c, const struct config_node *key,
                                  const struct config_node *value, const char *expected);
/* True if it is a map; otherwise a mistake. */
bool config_is_map(struct config *c, const struct config_node *key, const struct config_node *value,
                   const char *expected);
/* A value of the wrong kind. */
void config_blame_kind(struct config *c, const struct config_node *key,
                       const struct config_node *value, const char *expected);
/* Whether the key of a section is overrides or lists. */
bool config_is_temporary(const struct config_node *key);
/* What a row of CONFIG_FORMS expects. */
const char *config_form_expects(const char *name);

/* The pairs of a map, without keys that come again. */
#define CONFIG_EACH_PAIR(map, key)                                           \
    for (const struct config_node *key = (map)->first; (key) && (key)->next; \
         (key) = (key)->next->next)                                          \
        if (!(key)->again)

/* A key of a map, and where its text goes. */
struct config_field {
    const char *name;
    struct config_text *to;
    const char *expected;
};

/* Reads a map with these keys; the list ends with an all-zero row. */
void config_read_fields(struct config *c, const struct config_node *map,
                        const struct config_field *fields);
/* A map must have this one. A map whose end was not read may still have had it. */
void config_need_field(struct config *c, const struct config_node *map,
                       const struct config_node *name, const struct config_field *f);

/* Reads the list of rules (rule_sections.c). */
void config_read_rules(struct config *c, const struct config_node *key,
                       const struct config_node *value);

/* Reads overrides and lists (override_sections.c). */
void config_read_overrides(struct config *c, const struct config_node *key,
                           const struct config_node *value);
void config_read_lists(struct config *c, const struct config_node *key,
                       const struct config_node *value);

/* Reports a mistake at a place that no node has; a line of 0 is the file as a whole. */
void config_blame_at(struct config *c, const char *path, int line, int column, const char *format,
                     ...) __attribute__((format(printf, 5, 6)));

/* A byte of the file as a line and a column. */
void config_locate(const struct config_file *f, size_t byte, int *line, int *column);
/* Where the character of that number begins. */
size_t config_byte_of(const struct config_file *f, size_t index);

#endif
