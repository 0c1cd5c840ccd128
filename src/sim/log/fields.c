/* Finds the columns that say when, who and how much, and reads them from a line. */
#include "sim/log/fields.h"

#include <stdio.h>
#include <string.h>

#include "base/num.h"

/* Names by which columns are known, the likeliest first. */
static const char *const TIME_NAMES[] = {"time",
                                         "timestamp",
                                         "@timestamp",
                                         "ts",
                                         "time_local",
                                         "time_iso8601",
                                         "msec",
                                         "datetime",
                                         "date_time",
                                         "eventtime",
                                         "event_time",
                                         "starttime",
                                         "starttimeutc",
                                         "start_time",
                                         "created_at",
                                         "date",
                                         "at",
                                         "t",
                                         NULL};
static const char *const KEY_NAMES[] = {"ip",
                                        "remote_addr",
                                        "client_ip",
                                        "clientip",
                                        "remote_ip",
                                        "request.remote_ip",
                                        "request.client_ip",
                                        "clienthost",
                                        "client.ip",
                                        "httprequest.remoteip",
                                        "c-ip",
                                        "source_ip",
                                        "src_ip",
                                        "ip_address",
                                        "client",
                                        "remote_host",
                                        "remote",
                                        "clientaddr",
                                        "addr",
                                        "address",
                                        "src",
                                        "user",
                                        "user_id",
                                        "userid",
                                        "account",
                                        "api_key",
                                        "key",
                                        "host",
                                        NULL};
static const char *const STATUS_NAMES[] = {"status",
                                           "response",
                                           "status_code",
                                           "statuscode",
                                           "response_code",
                                           "http_status",
                                           "downstreamstatus",
                                           "httprequest.status",
                                           "response.status",
                                           "sc-status",
                                           "code",
                                           NULL};

const char *log_fault_text(enum log_fault fault)
{
    switch (fault) {
    case LOG_READ: return "read";
    case LOG_NOT_FORMAT: return "not of the format";
    case LOG_NO_TIME: return "no time that can be read";
    case LOG_NO_KEY: return "no key";
    case LOG_NO_COST: return "no cost that can be read";
    case LOG_TOO_LONG: return "longer than 65536 bytes";
    case LOG_FAULTS: break;
    }
    return "";
}

/* ---- Choosing -------------------------------------------------------------------------------- */

static bool column_missing(const struct log_format *f, const struct log_sample *sample,
                           const char *option, struct weir__slice name, struct sim_error *error)
{
    char columns[400];
    struct weir__out o = {columns, sizeof columns, 0};

    log_format_columns(f, sample, &o);
    (void)weir__out_end(&o);
    return sim_fail(error, "%s: no column '%.*s'; the columns are %s", option,
                    (int)(name.len < 40 ? name.len : 40), name.at, columns);
}

static bool template_add(struct log_template *t, struct weir__slice before, int want,
                         const char *option, struct sim_error *error)
{
    if (t->n == LOG_PARTS_MAX)
        return sim_fail(error, "%s: at most %d columns", option, LOG_PARTS_MAX);
    if (t->n > 0 && before.len == 0)
        return sim_fail(error, "%s: text must stand between two columns, as in '{ip} {path}'",
                        option);
    t->part[t->n].before = before;
    t->part[t->n++].want = want;
    return true;
}

static bool template_parse(struct log_template *t, struct log_format *f, const char *text,
                           const struct log_sample *sample, const char *option,
                           struct sim_error *error)
{
    struct weir__slice rest = weir__slice_of(text);

    *t = (struct log_template){0};
    if (!strchr(text, '{')) {
        const int want = log_format_want(f, rest, sample);

        return want < 0 ? column_missing(f, sample, option, rest, error)
                        : template_add(t, weir__slice_of(""), want, option, error);
    }
    while (memchr(rest.at, '{', rest.len)) {
        const struct weir__slice before = weir__slice_cut(&rest, '{');
        struct weir__slice name;
        int want;

        rest = (struct weir__slice){rest.at + 1, rest.len - 1};
        name = weir__slice_cut(&rest, '}');
        if (rest.len == 0)
            return sim_fail(error, "%s: a } is missing in '%.80s'", option, text);
        rest = (struct weir__slice){rest.at + 1, rest.len - 1};
        /* {ip} is whatever column the client's address is in. */
        if (log_name_is(name, weir__slice_of("ip")) && !log_format_has(f, name, sample))
            for (int i = 0; KEY_NAMES[i]; i++)
                if (log_format_has(f, weir__slice_of(KEY_NAMES[i]), sample)) {
                    name = weir__slice_of(KEY_NAMES[i]);
                    break;
                }
        want = log_format_want(f, name, sample);
        if (want < 0)
            return column_missing(f, sample, option, name, error);
        if (!template_add(t, before, want, option, error))
            return false;
    }
    t->after = rest;
    return true;
}

/* The first of the names that the format has, or NULL. */
static const char *name_known(const char *const *names, const struct log_format *f,
                              const struct log_sample *sample)
{
    for (; *names; names++)
        if (log_format_has(f, weir__slice_of(*names), sample))
            return *names;
    return NULL;
}

static bool choose_time(struct log_fields *fields, struct log_format *f, const char *text,
                        const struct log_sample *sample, struct sim_error *error)
{
    const char *const known = text ? text : name_known(TIME_NAMES, f, sample);
    char columns[400];
    struct weir__out o = {columns, sizeof columns, 0};

    if (known) {
        (void)snprintf(fields->found[0], sizeof fields->found[0], "%s", known);
        return template_parse(&fields->time, f, known, sample, "--time", error);
    }
    log_format_columns(f, sample, &o);
    (void)weir__out_end(&o);
    return sim_fail(error, "no column is known to be the time; name it with --time (%s)", columns);
}

static bool choose_key(struct log_fields *fields, struct log_format *f, const char *text,
                       const struct log_sample *sample, struct sim_error *error)
{
    const char *const known = text ? text : name_known(KEY_NAMES, f, sample);

    (void)snprintf(fields->found[1], sizeof fields->found[1], "%s", known ? known : "");
    fields->key = (struct log_template){0};
    return !known || template_parse(&fields->key, f, known, sample, "--key", error);
}

/* tokens, or in+out: columns that are added up. */
static bool choose_cost(struct log_fields *fields, struct log_format *f, const char *text,
                        const struct log_sample *sample, struct sim_error *error)
{
    struct weir__slice rest = weir__slice_of(text ? text : "");

    fields->costs = 0;
    while (rest.len > 0) {
        const struct weir__slice name = weir__slice_cut(&rest, '+');
        const int want = log_format_want(f, name, sample);

        if (rest.len > 0)
            rest = (struct weir__slice){rest.at + 1, rest.len - 1};
        if (want < 0)
            return column_missing(f, sample, "--cost", name, error);
        if (fields->costs == LOG_PARTS_MAX)
            return sim_fail(error, "--cost: at most %d columns", LOG_PARTS_MAX);
        fields->cost[fields->costs++] = want;
    }
    return true;
}

bool log_fields_choose(struct log_fields *fields, struct log_format *f,
                       const struct log_names *names, const struct log_sample *sample,
                       struct sim_error *error)
{
    const char *const status = names->status ? names->status : name_known(STATUS_NAMES, f, sample);

    *fields = (struct log_fields){.clock = names->clock, .status = -1};
    if (!choose_time(fields, f, names->time, sample, error) ||
        !choose_key(fields, f, names->key, sample, error) ||
        !choose_cost(fields, f, names->cost, sample, error))
        return false;
    if (status)
        fields->status = log_format_want(f, weir__slice_of(status), sample);
    if (names->status && fields->status < 0)
        return column_missing(f, sample, "--status", weir__slice_of(names->status), error);
    (void)snprintf(fields->found[2], sizeof fields->found[2], "%s", status ? status : "");
    return true;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* "GET /find?q=1 HTTP/1.1": the method, /find?q=1 or /find. */
static struct weir__slice request_part(struct weir__slice request, enum log_part part)
{
    struct weir__slice rest = request, word = weir__slice_cut(&rest, ' ');

    if (part == LOG_WHOLE || !request.at)
        return request;
    if (part == LOG_METHOD)
        return word;
    if (rest.len > 0)
        rest = (struct weir__slice){rest.at + 1, rest.len - 1};
    word = weir__slice_cut(&rest, ' ');
    return part == LOG_PATH ? weir__slice_cut(&word, '?') : word;
}

static struct weir__slice want_value(const struct log_format *f, const struct log_values *v, int i)
{
    return request_part(v->value[i], f->want[i].part);
}

/* Writes a value into a key of several. The byte that ends it there, and %, are written as %XX, so
 * that two different lists of values are never the same key. */
static void part_put(struct weir__out *o, struct weir__slice value, char stop)
{
    static const char HEX[] = "0123456789ABCDEF";

    for (size_t i = 0; i < value.len; i++) {
        const unsigned char c = (unsigned char)value.at[i];
        const char escaped[3] = {'%', HEX[c >> 4], HEX[c & 15]};

        if (value.at[i] == stop || c == '%')
            weir__out_bytes(o, escaped, 3);
        else
            weir__out_bytes(o, value.at + i, 1);
    }
}

/* False: a column has no value. A template of one column needs no copy. */
static bool template_fill(const struct log_template *t, const struct log_format *f,
                          const struct log_values *v, char buffer[LOG_KEY_MAX],
                          struct weir__slice *out)
{
    struct weir__out o = {buffer, LOG_KEY_MAX, 0};

    for (int i = 0; i < t->n; i++)
        if (!v->value[t->part[i].want].at)
            return false;
    if (t->n == 1 && t->part[0].before.len == 0 && t->after.len == 0) {
        *out = want_value(f, v, t->part[0].want);
        out->len = out->len < LOG_KEY_MAX ? out->len : LOG_KEY_MAX;
        return out->len > 0;
    }
    for (int i = 0; i < t->n; i++) {
        const struct weir__slice next = i + 1 < t->n ? t->part[i + 1].before : t->after;

        weir__out_bytes(&o, t->part[i].before.at, t->part[i].before.len);
        part_put(&o, want_value(f, v, t->part[i].want), next.len > 0 ? next.at[0] : '%');
    }
    weir__out_bytes(&o, t->after.at, t->after.len);
    *out = (struct weir__slice){buffer, o.len < LOG_KEY_MAX ? o.len : LOG_KEY_MAX};
    return true;
}

/* The time's template needs no escapes. */
static bool time_fill(const struct log_template *t, const struct log_format *f,
                      const struct log_values *v, enum log_clock clock, int64_t *ns)
{
    char text[128];
    struct weir__out o = {text, sizeof text, 0};

    for (int i = 0; i < t->n; i++)
        if (!v->value[t->part[i].want].at)
            return false;
    if (t->n == 1 && t->part[0].before.len == 0 && t->after.len == 0)
        return log_time_parse(want_value(f, v, t->part[0].want), clock, ns);
    for (int i = 0; i < t->n; i++) {
        const struct weir__slice value = want_value(f, v, t->part[i].want);

        weir__out_bytes(&o, t->part[i].before.at, t->part[i].before.len);
        weir__out_bytes(&o, value.at, value.len);
    }
    weir__out_bytes(&o, t->after.at, t->after.len);
    return o.len <= sizeof text && log_time_parse((struct weir__slice){text, o.len}, clock, ns);
}

/* A whole number; decimals are rounded up, and - is nothing. */
static bool cost_parse(struct weir__slice s, int64_t *cost)
{
    struct weir__slice whole;
    bool more = false;

    s = weir__slice_trim(s);
    if (weir__slice_is(s, "-") || s.len == 0) {
        *cost = 0;
        return s.len > 0;
    }
    whole = weir__slice_cut(&s, '.');
    for (size_t i = 1; i < s.len; i++) {
        if (s.at[i] < '0' || s.at[i] > '9')
            return false;
        more = more || s.at[i] != '0';
    }
    if (weir__parse_int(whole, cost) != WEIR__NUMBER_OK || *cost >= WEIR_COUNT_MAX)
        return false;
    *cost += more;
    return true;
}

static bool cost_read(const struct log_fields *fields, const struct log_values *v, int64_t *cost)
{
    *cost = fields->costs == 0;
    for (int i = 0; i < fields->costs; i++) {
        int64_t more;

        if (!v->value[fields->cost[i]].at || !cost_parse(v->value[fields->cost[i]], &more))
            return false;
        *cost += more; /* eight terms of at most 10^12 */
    }
    return true;
}

static int status_read(struct weir__slice s)
{
    int64_t status;

    return s.at && weir__parse_int(s, &status) == WEIR__NUMBER_OK && status < 1000 ? (int)status
                                                                                   : 0;
}

enum log_fault log_event_read(const struct log_fields *fields, const struct log_format *f,
                              struct weir__slice line, struct log_values *v, char key[LOG_KEY_MAX],
                              struct log_event *e)
{
    *e = (struct log_event){.key = {"all", 3}};
    if (!log_parse(f, line, v))
        return LOG_NOT_FORMAT;
    if (!time_fill(&fields->time, f, v, fields->clock, &e->time_ns))
        return LOG_NO_TIME;
    if (fields->key.n > 0 && !template_fill(&fields->key, f, v, key, &e->key))
        return LOG_NO_KEY;
    if (!cost_read(fields, v, &e->cost))
        return LOG_NO_COST;
    e->status = fields->status >= 0 ? status_read(v->value[fields->status]) : 0;
    return LOG_READ;
}
