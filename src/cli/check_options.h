/* The options of `weir check`. */
#ifndef WEIR_CLI_CHECK_OPTIONS_H
#define WEIR_CLI_CHECK_OPTIONS_H

#include "cli/options.h"
#include "config/config.h"

#define CHECK_FIELDS_MAX 64

struct serve_options;

struct check_options {
    bool json;
    const char *request; /* 'GET /x' */
    const char *ip;
    const char *header[CHECK_FIELDS_MAX]; /* 'Name: value' */
    size_t headers;
    const char *attribute[CHECK_FIELDS_MAX]; /* name=value */
    size_t attributes;
};

/* What the rules do with the request of the options, in words or as JSON. An exit status. */
int check_request(const struct check_options *o, const struct serve_options *file);
/* True if the options describe a request. */
static inline bool check_has_request(const struct check_options *o)
{
    return o->request || o->ip || o->headers > 0 || o->attributes > 0;
}

#endif
