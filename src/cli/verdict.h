/* A verdict as commands print it: a line for people, or a JSON object. It comes from a store that
 * the command opened itself, or from a server, which also tells the names. */
#ifndef WEIR_CLI_VERDICT_H
#define WEIR_CLI_VERDICT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <weir.h>

#include "base/text.h"

struct cli_verdict {
    struct weir_verdict v;
    bool fell_back;                /* the limit's fallback= decided */
    bool from_server;              /* the fields below are known */
    bool shadow, overflow;         /* as in weir_verdict */
    struct weir__slice limit_name; /* empty: not known */
    struct weir__slice term;       /* the term that refused; empty: none */
    const char *id_name;           /* "ticket"; NULL: there is no id */
    struct weir__slice id;         /* empty: refused, so there is none */
    int64_t ttl_ns;
    const char *yes, *no; /* the first words of the line: "allowed", "denied" */
};

void verdict_print(const struct cli_verdict *c, bool json, FILE *to);
/* A duration in milliseconds, rounded up: a caller that waits this long is not refused again. */
const char *verdict_time(int64_t ns, char text[WEIR__DURATION_MAX]);
/* Text that comes from elsewhere, without what a terminal would obey. */
void verdict_put_text(struct weir__slice text, FILE *to);

#endif
