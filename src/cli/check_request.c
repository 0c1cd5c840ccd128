/* `weir check --request`: what the rules of a file do with a request, and why. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/check_options.h"
#include "cli/commands.h"
#include "server/server.h"

#define SHOWN_MOST 100 /* rules that do not match and are listed */

static char scratch[RULES_SCRATCH];

/* ---- The request ----------------------------------------------------------------------------- */

static bool request_put(struct rules_request *q, struct weir__slice name, struct weir__slice value,
                        const char *option)
{
    static const char *const WHY[] = {"", "is given twice", "is not an address",
                                      "is longer than 8192 bytes", "is too long"};
    const enum rules_set set = rules_request_set(q, name, value);

    if (set == RULES_SET)
        return true;
    (void)fprintf(stderr, "weir check: %s: %.*s %s\n", option, (int)name.len, name.at, WHY[set]);
    return false;
}

/* 'GET /x', 'GET https://host/x' or '/x' */
static bool request_line(struct rules_request *q, const char *line)
{
    struct weir__slice rest = weir__slice_trim(weir__slice_of(line)), method = {NULL, 0}, host;

    if (rest.at[0] != '/' && memchr(rest.at, ' ', rest.len)) {
        method = weir__slice_cut(&rest, ' ');
        rest = weir__slice_trim(rest);
    }
    host = rules_url_host(rest);
    return request_put(q, weir__slice_of("method"), method, "--request") &&
           request_put(q, weir__slice_of("path"), rest, "--request") &&
           request_put(q, weir__slice_of("host"), host, "--request");
}

static bool is_host(struct weir__slice name)
{
    return name.len == 4 && (name.at[0] | 32) == 'h' && (name.at[1] | 32) == 'o' &&
           (name.at[2] | 32) == 's' && (name.at[3] | 32) == 't';
}

static bool request_fill(struct rules_request *q, const struct check_options *o)
{
    if (o->request && !request_line(q, o->request))
        return false;
    if (o->ip && !request_put(q, weir__slice_of("ip"), weir__slice_of(o->ip), "--ip"))
        return false;
    for (size_t i = 0; i < o->headers; i++) {
        struct weir__slice value = weir__slice_of(o->header[i]);
        const struct weir__slice name = weir__slice_trim(weir__slice_cut(&value, ':'));

        value = weir__slice_trim((struct weir__slice){value.at + 1, value.len - 1});
        if (is_host(name) && !request_put(q, weir__slice_of("host"), value, "--header"))
            return false;
        (void)rules_request_header(q, name, value);
    }
    for (size_t i = 0; i < o->attributes; i++) {
        struct weir__slice value = weir__slice_of(o->attribute[i]);
        struct weir__slice name = weir__slice_cut(&value, '=');
        char full[RULES_FIELD_MOST + 8];
        const int len = snprintf(full, sizeof full, "attr.%.*s", (int)name.len, name.at);

        if (len >= (int)sizeof full)
            continue; /* no rule has such a name */
        name = (struct weir__slice){full, (size_t)len};
        if (!request_put(q, name, (struct weir__slice){value.at + 1, value.len - 1}, "--attr"))
            return false;
    }
    return true;
}

/* ---- What becomes of a rule ------------------------------------------------------------------ */

struct outcome {
    bool applies;
    const char *why; /* it does not */
};

/* `final` is the rule behind which none applies, or UINT32_MAX. */
static struct outcome outcome_of(const struct rules_request *q, uint32_t rule, uint32_t final,
                                 char why[RULES_WHY_ROOM])
{
    char name[RULES_NAME_ROOM];
    struct weir__slice text;

    if (final == UINT32_MAX || rule <= final) {
        const char *unmet = rules_why_not(q, rule, why);

        return (struct outcome){!unmet, unmet};
    }
    text = rules_name(q->rules, final, name);
    (void)snprintf(why, RULES_WHY_ROOM, "not reached: %.*s is final", (int)text.len, text.at);
    return (struct outcome){false, why};
}

static uint32_t final_of(const struct rules *r, const struct rules_matches *m)
{
    return m->n > 0 && rules_is_final(r, m->rule[m->n - 1]) ? m->rule[m->n - 1] : UINT32_MAX;
}

/* ---- In words -------------------------------------------------------------------------------- */

static void words_rule(struct rules_request *q, uint32_t rule)
{
    char name[RULES_NAME_ROOM];
    const struct weir__slice text = rules_name(q->rules, rule, name);

    (void)printf("rule %.*s applies%s\n", (int)text.len, text.at,
                 rules_applies(q->rules, rule) == 0 ? " no limit" : "");
    for (size_t i = 0; i < rules_applies(q->rules, rule); i++) {
        const struct rules_applied a = rules_applied(q->rules, rule, i);
        static char key[RULES_SCRATCH * 4];
        struct weir__out o = {key, sizeof key, 0};

        rules_key_shown(q, rule, i, &o);
        (void)weir__out_end(&o);
        (void)printf("  limit %.*s, cost %lld, key %s\n", (int)a.limit.len, a.limit.at,
                     (long long)a.cost, key);
    }
}

static void words_others(struct rules_request *q, const struct rules_matches *m)
{
    const size_t others = rules_count(q->rules) - m->n;
    const uint32_t final = final_of(q->rules, m);
    size_t shown = 0;

    if (others > 0)
        (void)printf("rules that do not apply:\n");
    for (uint32_t rule = 0; rule < rules_count(q->rules) && shown < SHOWN_MOST; rule++) {
        char why[RULES_WHY_ROOM], name[RULES_NAME_ROOM];
        const struct outcome is = outcome_of(q, rule, final, why);
        const struct weir__slice text = rules_name(q->rules, rule, name);

        if (is.applies)
            continue;
        shown++;
        (void)printf("  %.*s: %s\n", (int)text.len, text.at, is.why);
    }
    if (others > shown)
        (void)printf("  and %zu more\n", others - shown);
}

static void request_print_words(struct rules_request *q, const struct rules_matches *m)
{
    size_t limits = 0;

    for (size_t i = 0; i < m->n; i++) {
        words_rule(q, m->rule[i]);
        limits += rules_applies(q->rules, m->rule[i]);
    }
    if (limits == 0)
        (void)printf("no limit applies: the request is allowed\n");
    words_others(q, m);
}

/* ---- As JSON --------------------------------------------------------------------------------- */

static void request_print_piece(void *to, const char *at, size_t len)
{
    (void)fwrite(at, 1, len, to);
}

static void request_json_limit(struct weir__json *j, struct rules_request *q, uint32_t rule,
                               size_t i)
{
    const struct rules_applied a = rules_applied(q->rules, rule, i);
    static char key[RULES_SCRATCH * 4];
    struct weir__out o = {key, sizeof key, 0};

    rules_key_shown(q, rule, i, &o);
    (void)weir__out_end(&o);
    weir__json_open(j, '{');
    weir__json_key(j, "limit");
    weir__json_string(j, a.limit);
    weir__json_key(j, "cost");
    weir__json_int(j, a.cost);
    weir__json_key(j, "template");
    weir__json_string(j, rules_template(q->rules, rule, i));
    weir__json_key(j, "key");
    weir__json_text(j, key);
    weir__json_close(j, '}');
}

static void request_json_rule(struct weir__json *j, struct rules_request *q, uint32_t rule,
                              struct outcome is)
{
    char name[RULES_NAME_ROOM];

    weir__json_open(j, '{');
    weir__json_key(j, "rule");
    weir__json_string(j, rules_name(q->rules, rule, name));
    weir__json_key(j, "applies");
    weir__json_bool(j, is.applies);
    if (is.applies) {
        weir__json_key(j, "final");
        weir__json_bool(j, rules_is_final(q->rules, rule));
        weir__json_key(j, "limits");
        weir__json_open(j, '[');
        for (size_t i = 0; i < rules_applies(q->rules, rule); i++)
            request_json_limit(j, q, rule, i);
        weir__json_close(j, ']');
    } else {
        weir__json_key(j, "why");
        weir__json_text(j, is.why);
    }
    weir__json_close(j, '}');
}

static void request_print_json(struct rules_request *q, const struct rules_matches *m)
{
    struct weir__json j = {.put = request_print_piece, .to = stdout};
    const uint32_t final = final_of(q->rules, m);

    weir__json_open(&j, '{');
    weir__json_key(&j, "rules");
    weir__json_open(&j, '[');
    for (uint32_t rule = 0; rule < rules_count(q->rules); rule++) {
        char why[RULES_WHY_ROOM];

        request_json_rule(&j, q, rule, outcome_of(q, rule, final, why));
    }
    weir__json_close(&j, ']');
    weir__json_close(&j, '}');
    (void)putchar('\n');
}

int check_request(const struct check_options *o, const struct serve_options *file)
{
    struct rules_request q;
    struct rules_matches m;

    if (!file->rules) {
        (void)fputs("weir check: the file has no rules\n", stderr);
        return EXIT_FAILED;
    }
    rules_request_init(&q, file->rules, scratch, sizeof scratch,
                       file->ipv6_prefix ? file->ipv6_prefix : 64);
    if (!request_fill(&q, o))
        return EXIT_USAGE;
    rules_match(&q, &m);
    if (o->json)
        request_print_json(&q, &m);
    else
        request_print_words(&q, &m);
    return EXIT_DONE;
}
