/* Topics of `weir help`: what holds for many commands. */
#ifndef WEIR_CLI_TOPICS_H
#define WEIR_CLI_TOPICS_H

#include <stdio.h>

struct topic {
    const char *name, *summary;
    const char *const *about;    /* paragraphs, as those of a command */
    const char *const *examples; /* command lines */
};

/* The topics; the last one has no name. */
extern const struct topic TOPICS[];

/* The topic of that name, or NULL. */
const struct topic *topic_find(const char *name);
/* The name of the i-th topic; NULL: there is none. For options_near(). */
const char *topic_name(const void *topics, size_t i);
void topic_print(const struct topic *t, FILE *to);
/* Prints their names and what they are about. */
void topics_list(FILE *to);

#endif
