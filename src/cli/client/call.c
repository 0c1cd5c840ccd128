/* Sends one command to a server, and prints its reply: verdicts, OK, numbers. */
#include "cli/client/call.h"

#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "sim/report.h"

int call_read(const struct command *c, struct call_options *o, int argc, char **argv)
{
    *o = (struct call_options){.cost = -1, .wait_ns = -1, .ttl_ns = -1, .took_ns = -1, .lapse = -1};
    return options_read(c, o, argc, argv) < 0 ? EXIT_USAGE : 0;
}

bool call_read_cost(const struct command *c, const char *word, int64_t *cost)
{
    if (weir__parse_count(weir__slice_of(word), cost) == WEIR__NUMBER_OK)
        return true;
    (void)fprintf(stderr, "weir %s: cost '%s': expected a whole number, 0 or more\n", c->name,
                  cli_redacted(word));
    return false;
}

/* ---- Verdicts -------------------------------------------------------------------------------- */

/* The value behind that name in a flat list of names and values, or NULL. */
static const struct resp_value *reply_field(const struct client_conn *c, const char *name)
{
    for (size_t i = 1; i + 1 < c->reply.n; i += 2)
        if (c->value[i].kind == RESP_IS_TEXT && weir__slice_is(c->value[i].text, name))
            return &c->value[i + 1];
    return NULL;
}

static int64_t reply_int(const struct client_conn *c, const char *name)
{
    const struct resp_value *const v = reply_field(c, name);

    return v && v->kind == RESP_IS_INTEGER ? v->number : 0;
}

static struct weir__slice reply_text(const struct client_conn *c, const char *name)
{
    const struct resp_value *const v = reply_field(c, name);

    return v && v->kind == RESP_IS_TEXT ? v->text : (struct weir__slice){"", 0};
}

/* The wire has milliseconds; -1 stays -1: never. */
static int64_t reply_time_ns(const struct client_conn *c, const char *name)
{
    const int64_t ms = reply_int(c, name);

    return ms < 0 ? -1 : ms > INT64_MAX / WEIR__NS_PER_MS ? INT64_MAX : ms * WEIR__NS_PER_MS;
}

/* False: a reason of another version. */
static bool reply_reason(const struct client_conn *c, enum weir_reason *reason)
{
    static const enum weir_reason REASONS[] = {
#define X(name) WEIR_##name,
        WEIR_REASONS(X)
#undef X
    };
    const struct weir__slice text = reply_text(c, "reason");

    for (size_t i = 0; i < sizeof REASONS / sizeof REASONS[0]; i++)
        if (weir__slice_is(text, weir_reason_name(REASONS[i]))) {
            *reason = REASONS[i];
            return true;
        }
    return false;
}

bool call_read_verdict(const struct client_conn *c, const struct call_verdict *how,
                       struct cli_verdict *out)
{
    struct weir_verdict v = {0};

    if (c->value[0].kind != RESP_IS_ARRAY || !reply_field(c, "allowed") ||
        !reply_field(c, "remaining") || !reply_reason(c, &v.reason))
        return false;
    v.allowed = reply_int(c, "allowed") == 1;
    v.which = (int)reply_int(c, "which");
    v.limit = reply_int(c, "limit");
    v.remaining = reply_int(c, "remaining");
    v.retry_after_ns = reply_time_ns(c, "retry_after_ms");
    v.reset_after_ns = reply_time_ns(c, "reset_after_ms");
    v.wait_ns = reply_time_ns(c, "wait_ms");
    v.warned = reply_int(c, "warned") == 1;
    *out = (struct cli_verdict){
        .v = v,
        .fell_back = v.reason == WEIR_FALLBACK,
        .from_server = true,
        .shadow = reply_int(c, "shadow") == 1,
        .overflow = reply_int(c, "overflow") == 1,
        .limit_name = reply_text(c, "limit_name"),
        .term = reply_text(c, "term"),
        .id_name = how->id_name,
        .id = how->id_name ? reply_text(c, how->id_name) : (struct weir__slice){"", 0},
        .ttl_ns = reply_time_ns(c, "ttl_ms"),
        .yes = how->yes,
        .no = how->no,
    };
    return true;
}

static void print_with_id(const struct cli_verdict *v, bool json)
{
    const bool apart = v->id_name && !json;

    verdict_print(v, json, apart ? stderr : stdout);
    if (!apart || v->id.len == 0)
        return;
    verdict_put_text(v->id, stdout);
    (void)putchar('\n');
}

int call_verdict(const struct call_verdict *how, const struct client_options *o,
                 const struct client_command *w, int64_t wait_ns)
{
    struct client_conn c;
    struct cli_verdict v;
    int status = client_call(&c, how->command, o, w, wait_ns);

    if (status)
        return status;
    if (!call_read_verdict(&c, how, &v))
        status = client_strange(&c);
    else if (v.fell_back && how->no_fallback) {
        (void)fprintf(stderr,
                      "weir %s: the server's store did not answer, and --no-fallback is "
                      "given\n",
                      how->command);
        status = EXIT_NO_ANSWER;
    } else {
        print_with_id(&v, o->json);
        status = v.v.allowed ? EXIT_DONE : EXIT_DENIED;
    }
    client_close(&c);
    return status;
}

/* ---- OK, and numbers ------------------------------------------------------------------------- */

int call_ok(const struct command *command, const struct call_options *o,
            const struct client_command *w, const char *done)
{
    struct client_conn c;
    int status = client_call(&c, command->name, &o->client, w, 0);

    if (status)
        return status;
    if (c.value[0].kind != RESP_IS_TEXT || !weir__slice_is(c.value[0].text, "OK"))
        status = client_strange(&c);
    else
        (void)puts(o->client.json ? "{\"ok\":true}" : done);
    client_close(&c);
    return status;
}

int call_number(const struct command *command, const struct call_options *o,
                const struct client_command *w, int64_t *number)
{
    struct client_conn c;
    int status = client_call(&c, command->name, &o->client, w, 0);

    if (status)
        return status;
    *number = c.value[0].number;
    if (c.value[0].kind != RESP_IS_INTEGER)
        status = client_strange(&c);
    client_close(&c);
    return status;
}

static int call_absent(const struct command *command, const struct call_options *o,
                       const char *json, const char *none)
{
    if (o->client.json)
        (void)puts(json);
    else
        (void)fprintf(stderr, "weir %s: %s\n", command->name, none);
    return EXIT_FAILED;
}

int call_delete(const struct command *command, const struct call_options *o,
                const struct client_command *w, const char *none)
{
    int64_t deleted;
    const int status = call_number(command, o, w, &deleted);

    if (status)
        return status;
    if (deleted == 0)
        return call_absent(command, o, "{\"deleted\":false}", none);
    (void)puts(o->client.json ? "{\"deleted\":true}" : "deleted");
    return EXIT_DONE;
}

static void call_print_limit(struct weir__slice text, bool json)
{
    struct weir__json j = sim_json_to(stdout);

    if (json) {
        weir__json_open(&j, '{');
        weir__json_key(&j, "limit");
        weir__json_string(&j, text);
        weir__json_close(&j, '}');
    } else
        verdict_put_text(text, stdout);
    (void)putchar('\n');
}

int call_get(const struct command *command, const struct call_options *o,
             const struct client_command *w, const char *none)
{
    struct client_conn c;
    int status = client_call(&c, command->name, &o->client, w, 0);

    if (status)
        return status;
    if (c.value[0].kind == RESP_IS_NULL)
        status = call_absent(command, o, "{\"limit\":null}", none);
    else if (c.value[0].kind != RESP_IS_TEXT)
        status = client_strange(&c);
    else
        call_print_limit(c.value[0].text, o->client.json);
    client_close(&c);
    return status;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void call_json_begin(struct weir__json *j, bool json, const char *name)
{
    if (!json)
        return;
    weir__json_open(j, '{');
    weir__json_key(j, name);
    weir__json_open(j, '[');
}

void call_json_end(struct weir__json *j, bool json)
{
    if (!json)
        return;
    weir__json_close(j, ']');
    weir__json_close(j, '}');
    (void)putchar('\n');
}

void call_json_key(struct weir__json *j, struct weir__slice name)
{
    weir__json_string(j, name);
    j->put(j->to, ":", 1);
    j->comma = false;
}
