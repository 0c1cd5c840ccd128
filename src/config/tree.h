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
    uint64_t stamp; /* as the files were read */
    struct config_chunk *chunks;
    size_t nodes;
    bool exhausted; /* there was no memory for something */
    struct config_value **values_end;
    struct config_listener **listeners_end;
    struct config_store **stores_end;
    struct config_limit **limits_end;
};

/* Memory that lives as long as the config; zeroed. NULL: there is none, and config_open fails. */
void *config_take(struct config *c, size_t bytes);
char *config_copy(struct config *c, const char *bytes, size_t len);

/* Reads the YAML of the file; mistakes are reported, and what is before them is in the tree. */
void config_tree(struct config *c, struct config_file *f);

/* Reads the sections of the file. */
void config_sections(struct config *c, struct config_file *f);

/* Reports a mistake at a place that no node has; a line of 0 is the file as a whole. */
void config_blame_at(struct config *c, const char *path, int line, int column, const char *format,
                     ...) __attribute__((format(printf, 5, 6)));

/* A byte of the file as a line and a column. */
void config_locate(const struct config_file *f, size_t byte, int *line, int *column);
/* Where the character of that number begins. */
size_t config_byte_of(const struct config_file *f, size_t index);

#endif
