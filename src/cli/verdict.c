/* Prints verdicts, for `weir take` and all commands that ask a server. */
#include "cli/verdict.h"

#include <inttypes.h>

#include "base/num.h"
#include "cli/commands.h"
#include "sim/report.h"

const char *verdict_time(int64_t ns, char text[WEIR__DURATION_MAX])
{
    return weir__duration_text(weir__div_ceil(ns, WEIR__NS_PER_MS) * WEIR__NS_PER_MS, text);
}

void verdict_put_text(struct weir__slice text, FILE *to)
{
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.at[i];

        (void)fputc(c < ' ' || c == 0x7f ? '?' : c, to);
    }
}

/* A permit without a lease comes back when its owner returns it: weir cannot know when. */
#define VERDICT_KNOWN_NS (INT64_MAX - WEIR__NS_PER_MS)

/* ---- For people ------------------------------------------------------------------------------ */

static void print_time(FILE *to, const char *before, int64_t ns)
{
    char text[WEIR__DURATION_MAX];

    (void)fprintf(to, "%s%s", before, verdict_time(ns, text));
}

/* "denied by token-bucket 5/m of api" */
static void print_names(FILE *to, const struct cli_verdict *c)
{
    if (c->term.len == 0)
        return;
    (void)fputs(c->shadow ? ", but refused in shadow by " : " by ", to);
    verdict_put_text(c->term, to);
    if (c->limit_name.len > 0) {
        (void)fputs(" of ", to);
        verdict_put_text(c->limit_name, to);
    }
}

static void print_reason(FILE *to, const struct cli_verdict *c)
{
    const bool odd = c->v.reason != WEIR_OK && c->v.reason != WEIR_LIMITED;

    if (c->fell_back)
        (void)fputs(", by the limit's fallback", to);
    else if (odd)
        (void)fprintf(to, " (%s)", weir_reason_name(c->v.reason));
}

static void print_times(FILE *to, const struct weir_verdict *v)
{
    if (v->allowed && v->wait_ns > 0)
        print_time(to, ", act in ", v->wait_ns);
    if (!v->allowed && v->retry_after_ns < 0 && v->reason != WEIR_LISTED)
        (void)fputs(", this cost can never pass", to);
    else if (!v->allowed && v->retry_after_ns > 0) /* 0: not known, as of guards */
        print_time(to, ", retry in ", v->retry_after_ns);
    if (v->reset_after_ns > 0 && v->reset_after_ns < VERDICT_KNOWN_NS)
        print_time(to, ", all back in ", v->reset_after_ns);
    else if (!v->allowed && v->reset_after_ns > 0 && v->retry_after_ns == 0)
        (void)fputs(", retry when a permit is free", to);
}

/* Of a breaker, or of `unlimited`, there is nothing to count. */
static void print_left(FILE *to, const struct weir_verdict *v)
{
    if (v->limit < WEIR_COUNT_MAX || (v->remaining > 0 && v->remaining < v->limit))
        (void)fprintf(to, ": %" PRId64 " of %" PRId64 " left", v->remaining, v->limit);
}

static void print_plain(const struct cli_verdict *c, FILE *to)
{
    const struct weir_verdict *const v = &c->v;
    const bool colour = to == stdout && cli_colour();

    (void)fprintf(to, "%s%s%s",
                  !colour      ? ""
                  : v->allowed ? "\033[32m"
                               : "\033[31m",
                  v->allowed ? c->yes : c->no, colour ? "\033[0m" : "");
    print_names(to, c);
    print_reason(to, c);
    print_left(to, v);
    print_times(to, v);
    if (v->warned > 0)
        (void)fputs(", warn= crossed", to);
    if (c->id.len > 0 && c->ttl_ns > 0) {
        (void)fprintf(to, "; the %s lasts ", c->id_name);
        print_time(to, "", c->ttl_ns);
    }
    (void)fputc('\n', to);
}

/* ---- For programs ---------------------------------------------------------------------------- */

static void verdict_json_bool(struct weir__json *j, const char *name, bool value)
{
    weir__json_key(j, name);
    weir__json_bool(j, value);
}

static void verdict_json_int(struct weir__json *j, const char *name, int64_t value)
{
    weir__json_key(j, name);
    weir__json_int(j, value);
}

static void verdict_json_text(struct weir__json *j, const char *name, struct weir__slice text)
{
    weir__json_key(j, name);
    if (text.len > 0)
        weir__json_string(j, text);
    else
        weir__json_null(j);
}

static void verdict_json_of_server(struct weir__json *j, const struct cli_verdict *c)
{
    verdict_json_text(j, "limit_name", c->limit_name);
    verdict_json_int(j, "which", c->v.which);
    verdict_json_text(j, "term", c->term);
    verdict_json_bool(j, "shadow", c->shadow);
    verdict_json_bool(j, "overflow", c->overflow);
    if (!c->id_name)
        return;
    verdict_json_text(j, c->id_name, c->id);
    verdict_json_int(j, "ttl_ns", c->ttl_ns);
}

static void print_json(const struct cli_verdict *c, FILE *to)
{
    const struct weir_verdict *const v = &c->v;
    struct weir__json j = sim_json_to(to);

    weir__json_open(&j, '{');
    verdict_json_bool(&j, "allowed", v->allowed);
    weir__json_key(&j, "reason");
    weir__json_text(&j, weir_reason_name(v->reason));
    verdict_json_int(&j, "limit", v->limit);
    verdict_json_int(&j, "remaining", v->remaining);
    weir__json_key(&j, "wait_ns");
    (v->allowed ? weir__json_int(&j, v->wait_ns) : weir__json_null(&j));
    weir__json_key(&j, "retry_after_ns");
    (v->allowed ? weir__json_null(&j) : weir__json_int(&j, v->retry_after_ns));
    verdict_json_int(&j, "reset_after_ns", v->reset_after_ns);
    verdict_json_bool(&j, "warned", v->warned > 0);
    verdict_json_bool(&j, "fallback", c->fell_back);
    if (c->from_server)
        verdict_json_of_server(&j, c);
    weir__json_close(&j, '}');
    (void)fputc('\n', to);
}

void verdict_print(const struct cli_verdict *c, bool json, FILE *to)
{
    (json ? print_json : print_plain)(c, to);
}
