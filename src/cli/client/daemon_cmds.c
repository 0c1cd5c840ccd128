/* `weir ping`, `reload` and `stats`: the server itself. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "cli/client/call.h"
#include "cli/client/connection.h"
#include "sim/report.h"

static const struct option CLIENT_ONLY[] = {CALL_CLIENT, {0}};

/* ---- Ping ------------------------------------------------------------------------------------ */

static int ping_command(int argc, char **argv);

const struct command PING_COMMAND = {
    "ping",
    "ask whether a server answers",
    "[OPTION...]",
    .about = TEXTS("Asks whether a server answers, and prints how long the answer took; connecting "
                   "to it is not counted."),
    .options = CLIENT_ONLY,
    .statuses = TEXTS("0 it answers", CLIENT_STATUSES),
    .examples = TEXTS("weir ping", "weir ping --server unix:/run/weir.sock --timeout 1s"),
    OPERANDS(0, 0, NULL),
    .run = ping_command,
};

static void print_pong(const struct client_conn *c, bool json, int64_t took_ns)
{
    struct weir__json j = sim_json_to(stdout);
    char text[WEIR__DURATION_MAX];

    if (!json) {
        (void)printf("%s answers, in %s\n", c->address,
                     weir__duration_text(weir__div_ceil(took_ns, 1000) * 1000, text));
        return;
    }
    weir__json_open(&j, '{');
    weir__json_key(&j, "server");
    weir__json_text(&j, c->address);
    weir__json_key(&j, "took_ns");
    weir__json_int(&j, took_ns);
    weir__json_close(&j, '}');
    (void)putchar('\n');
}

static int ping_command(int argc, char **argv)
{
    const struct client_command w = CALL_WORDS("PING");
    struct call_options o;
    struct client_conn c;
    int64_t began_ns;
    int status = call_read(&PING_COMMAND, &o, argc, argv);

    if (status || (status = client_open(&c, PING_COMMAND.name, &o.client)))
        return status;
    began_ns = connection_now();
    status = client_ask(&c, &w, 0);
    if (!status && !weir__slice_is(c.value[0].text, "PONG"))
        status = client_strange(&c);
    if (!status)
        print_pong(&c, o.client.json, connection_now() - began_ns);
    client_close(&c);
    return status;
}

/* ---- Reload ---------------------------------------------------------------------------------- */

static int daemon_reload_command(int argc, char **argv);

const struct command RELOAD_COMMAND = {
    "reload",
    "have a server read its configuration file again",
    "[OPTION...]",
    .about = TEXTS("Has a server read its configuration file again, as SIGHUP does, and says when "
                   "it is in force. A file with a mistake changes nothing; the first mistake is "
                   "printed."),
    .options = CLIENT_ONLY,
    .statuses = TEXTS("0 the file is in force", CLIENT_STATUSES),
    .examples = TEXTS("weir reload"),
    OPERANDS(0, 0, NULL),
    .run = daemon_reload_command,
};

static int daemon_reload_command(int argc, char **argv)
{
    const struct client_command w = CALL_WORDS("WEIR.CONFIG", "RELOAD");
    struct call_options o;
    const int status = call_read(&RELOAD_COMMAND, &o, argc, argv);

    return status ? status : call_ok(&RELOAD_COMMAND, &o, &w, "reloaded");
}

/* ---- Stats ----------------------------------------------------------------------------------- */

static int stats_command(int argc, char **argv);

const struct command STATS_COMMAND = {
    "stats",
    "show the counters of a server",
    "[OPTION...]",
    .about = TEXTS("Prints what a server has done and what it uses. --json prints all that INFO "
                   "has, section by section; docs/reference/serve.md describes the fields."),
    .options = CLIENT_ONLY,
    .statuses = TEXTS("0 done", CLIENT_STATUSES),
    .examples = TEXTS("weir stats", "weir stats --json | jq .stats.denied"),
    OPERANDS(0, 0, NULL),
    .run = stats_command,
};

/* The value of a line "name:value" of INFO; empty: there is none. */
static struct weir__slice info_text(struct weir__slice info, const char *name)
{
    while (info.len > 0) {
        struct weir__slice line = weir__slice_cut(&info, '\n');
        const struct weir__slice field = weir__slice_cut(&line, ':');

        if (info.len > 0)
            info = (struct weir__slice){info.at + 1, info.len - 1};
        if (weir__slice_is(field, name) && line.len > 0)
            return weir__slice_trim((struct weir__slice){line.at + 1, line.len - 1});
    }
    return (struct weir__slice){"", 0};
}

static int64_t info_int(struct weir__slice info, const char *name)
{
    int64_t n;

    return weir__parse_int(info_text(info, name), &n) == WEIR__NUMBER_OK ? n : 0;
}

/* 6.2 MiB */
static const char *size_text(int64_t bytes, char text[32])
{
    static const char *const UNITS[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    size_t unit = 0;

    while (size >= 1024 && unit + 1 < sizeof UNITS / sizeof UNITS[0]) {
        size /= 1024;
        unit++;
    }
    (void)snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.1f %s", size, UNITS[unit]);
    return text;
}

/* "2 live keys", and "1 live key": a name that ends with 's' is one of many. */
static void print_number(int64_t n, const char *before, const char *name)
{
    const size_t len = strlen(name);
    const bool one = n == 1 && name[len - 1] == 's';

    (void)printf("%s%" PRId64 " %.*s", before, n, (int)(len - one), name);
}

static void print_numbers(struct weir__slice info, const char *row, const char *const (*fields)[2])
{
    (void)printf("%-12s", row);
    for (size_t i = 0; fields[i][0]; i++)
        print_number(info_int(info, fields[i][0]), i > 0 ? ", " : "", fields[i][1]);
    (void)putchar('\n');
}

/* The lines "storeN:url=U,down=D,..." of INFO. A store that is not remote has no down=. */
static void print_stores(struct weir__slice info)
{
    struct weir__slice line;
    char name[32];

    for (int k = 0; k < 1000; k++) {
        struct weir__slice url;

        (void)snprintf(name, sizeof name, "store%d", k);
        line = info_text(info, name);
        if (line.len < 4)
            return;
        line = (struct weir__slice){line.at + 4, line.len - 4}; /* url= */
        url = weir__slice_cut(&line, ',');
        (void)printf("%-12s", k == 0 ? "stores" : "");
        verdict_put_text(url, stdout);
        (void)puts(line.len < 7                         ? ""
                   : memcmp(line.at, ",down=0", 7) == 0 ? " is up"
                                                        : " is down: fallback= decides");
    }
}

static void print_stats(const struct client_conn *c, struct weir__slice info)
{
    char used[32], most[32], up[WEIR__DURATION_MAX];

    (void)fputs("weir ", stdout);
    verdict_put_text(info_text(info, "weir_version"), stdout);
    (void)printf(" at %s, up %s\n", c->address,
                 weir__duration_text(info_int(info, "uptime_in_seconds") * WEIR__NS_PER_S, up));
    print_numbers(info, "decisions",
                  (const char *const[][2]){{"takes", "takes"},
                                           {"allowed", "allowed"},
                                           {"denied", "denied"},
                                           {"shadow_denied", "denied in shadow"},
                                           {"delayed", "delayed"},
                                           {"errors", "errors"},
                                           {NULL, NULL}});
    print_numbers(info, "tickets",
                  (const char *const[][2]){{"open_tickets", "open"},
                                           {"tickets_entered", "entered"},
                                           {"tickets_exited", "exited"},
                                           {"tickets_lapsed", "lapsed"},
                                           {NULL, NULL}});
    print_numbers(info, "clients",
                  (const char *const[][2]){{"connected_clients", "connected"},
                                           {"blocked_clients", "waiting"},
                                           {"refused_connections", "refused"},
                                           {NULL, NULL}});
    print_numbers(info, "store",
                  (const char *const[][2]){{"limits", "limits"},
                                           {"live_keys", "live keys"},
                                           {"max_keys", "at most in all stores"},
                                           {"evicted_keys", "evicted"},
                                           {NULL, NULL}});
    print_stores(info);
    (void)printf("memory      %s of %s\n", size_text(info_int(info, "used_memory"), used),
                 size_text(info_int(info, "maxmemory"), most));
}

/* A whole number as a number, room=1,evicted=0 as an object, anything else as text. */
static void stats_json_value(struct weir__json *j, struct weir__slice text, bool pairs)
{
    const bool minus = text.len > 0 && text.at[0] == '-';
    int64_t n;

    if (pairs && memchr(text.at, '=', text.len)) {
        weir__json_open(j, '{');
        while (text.len > 0) {
            struct weir__slice value = weir__slice_cut(&text, ',');
            const struct weir__slice name = weir__slice_cut(&value, '=');

            call_json_key(j, name);
            stats_json_value(
                j, value.len > 0 ? (struct weir__slice){value.at + 1, value.len - 1} : value,
                false);
            if (text.len > 0)
                text = (struct weir__slice){text.at + 1, text.len - 1};
        }
        weir__json_close(j, '}');
    } else if (weir__parse_int((struct weir__slice){text.at + minus, text.len - minus}, &n) ==
               WEIR__NUMBER_OK)
        weir__json_int(j, minus ? -n : n);
    else
        weir__json_string(j, text);
}

/* "# Stats" begins an object of that name in small letters. */
static void stats_json_section(struct weir__json *j, struct weir__slice name, bool first)
{
    char small[32];
    size_t n = 0;

    for (; n < name.len && n + 1 < sizeof small; n++)
        small[n] = (char)(name.at[n] | 0x20);
    if (!first)
        weir__json_close(j, '}');
    call_json_key(j, (struct weir__slice){small, n});
    weir__json_open(j, '{');
}

static void print_stats_json(struct weir__slice info)
{
    struct weir__json j = sim_json_to(stdout);
    bool any = false, pairs = false;

    weir__json_open(&j, '{');
    while (info.len > 0) {
        struct weir__slice value = weir__slice_trim(weir__slice_cut(&info, '\n'));

        if (info.len > 0)
            info = (struct weir__slice){info.at + 1, info.len - 1};
        if (value.len > 2 && value.at[0] == '#') {
            const struct weir__slice name = {value.at + 2, value.len - 2};

            stats_json_section(&j, name, !any);
            pairs = weir__slice_is(name, "Limits") || weir__slice_is(name, "Stores");
            any = true;
        } else if (any && value.len > 0) {
            call_json_key(&j, weir__slice_cut(&value, ':'));
            stats_json_value(
                &j, value.len > 0 ? (struct weir__slice){value.at + 1, value.len - 1} : value,
                pairs);
        }
    }
    if (any)
        weir__json_close(&j, '}');
    weir__json_close(&j, '}');
    (void)putchar('\n');
}

static int stats_command(int argc, char **argv)
{
    const struct client_command w = CALL_WORDS("INFO");
    struct call_options o;
    struct client_conn c;
    int status = call_read(&STATS_COMMAND, &o, argc, argv);

    if (status || (status = client_call(&c, STATS_COMMAND.name, &o.client, &w, 0)))
        return status;
    if (c.value[0].kind != RESP_IS_TEXT || info_text(c.value[0].text, "weir_version").len == 0)
        status = client_strange(&c);
    else if (o.client.json)
        print_stats_json(c.value[0].text);
    else
        print_stats(&c, c.value[0].text);
    client_close(&c);
    return status;
}
