/* The parts of reading a configuration file: serve_config.c (settings, listeners),
 * serve_config_limits.c (stores, limits), config/overrides.c (overrides, lists), config/start.c
 * (files that a start needs), serve_config_rules.c (rules), serve_config_changes.c (what needs a
 * restart). */
#ifndef WEIR_CLI_SERVE_CONFIG_PARTS_H
#define WEIR_CLI_SERVE_CONFIG_PARTS_H

#include "cli/config_keys.h"
#include "server/server.h"

/* A text that options point to. */
struct serve_text {
    struct serve_text *next;
    char text[];
};

struct serve_reading {
    struct config *config;
    struct serve_options *options;
    const bool *seen; /* options of the command line, by index */
    struct serve_text *texts;
    char *keys, *entries; /* of overrides, of lists: once they are kept apart from the file */
    bool exhausted;
    bool too_many;             /* limits: that is told once */
    const struct config *then; /* the one in force, or NULL */
    const struct serve_options *then_options;
};

void serve_read_stores(struct serve_reading *r);
void serve_read_limits(struct serve_reading *r);
/* The overrides and lists of the file. After the limits. */
void serve_read_overrides(struct serve_reading *r);
/* What the rules of the file say; NULL: it has none, or they have mistakes. After the limits. */
struct rules *serve_read_rules(struct serve_reading *r);
/* Reports what would keep a daemon from starting, of what can be known before: listeners, tokens
 * and certificates (config/start.c). After all others. */
void serve_read_start(struct serve_reading *r);
/* Reports what differs from the one in force and cannot change while the daemon runs. */
void serve_read_changes(struct serve_reading *r);

/* Adds the URL of a store that is open and that the file may no longer name. */
void serve_keep_store(struct serve_reading *r, const char *url);

/* Whether the limit's store can have it. *per_node: of how many of its terms each daemon has a
 * state of its own, because the store is a Redis and they look at one node. False and *why: it has
 * a term that no Redis can have. */
bool serve_limit_fits_store(const struct serve_options *o, const char *text, const char *url,
                            int *per_node, struct weir_diag *why);

/* Whether that option was given on the command line. */
bool serve_option_seen(const struct serve_reading *r, const char *name);

/* An error's sentence without the column that it begins with: the file has another one. */
const char *serve_sentence(const struct weir_diag *why);

/* A word as messages show it. */
const char *serve_quoted(char to[64], const char *word);

/* "weir.yaml:3:7: unknown key ..." */
#define SERVE_MISTAKE (CONFIG_PLACE + 600)
const char *serve_mistake(char to[SERVE_MISTAKE], const struct config_mistake *m);

#endif
