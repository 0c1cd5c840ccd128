/* Fuzzes the readers of logs: the first byte chooses a format, the rest are lines. Whatever the
 * bytes are, the choice of a format and of columns ends, and an event that is read is sound. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "sim/log/fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
    const char *format, *columns, *key, *cost;
} WAYS[] = {
    {NULL, NULL, NULL, NULL},
    {"combined", NULL, "{ip} {path}", "body_bytes_sent"},
    {"json", NULL, "user", "n"},
    {"logfmt", NULL, "user", NULL},
    {"csv", "time,user,n", "user", "n"},
    {"$remote_addr [$time_iso8601] \"$request\" $status", NULL, "{method}:{uri}", NULL},
    {"json", NULL, "{a.b}/{c}", "in+out"},
    {"vhost", NULL, "http_user_agent", NULL},
};

static void sample_lines(struct log_sample *sample, struct weir__slice rest)
{
    while (rest.len > 0 && sample->n < LOG_SAMPLE_MAX) {
        const struct weir__slice line = weir__slice_cut(&rest, '\n');

        if (line.len > 0 && line.len <= LOG_LINE_MAX)
            sample->line[sample->n++] = line;
        if (rest.len > 0)
            rest = (struct weir__slice){rest.at + 1, rest.len - 1};
    }
}

/* Every line in a block of its own: a sanitizer sees a byte too far. */
static void read_line(const struct log_fields *fields, const struct log_format *format,
                      struct weir__slice line)
{
    static struct log_values values;
    static char key[LOG_KEY_MAX];
    struct log_event e;
    char *const copy = malloc(line.len + (line.len == 0));

    if (!copy)
        abort();
    memcpy(copy, line.at, line.len);
    if (log_event_read(fields, format, (struct weir__slice){copy, line.len}, &values, key, &e) ==
            LOG_READ &&
        (e.time_ns < 0 || e.time_ns > WEIR__NOW_MAX || e.cost < 0 || e.key.len > LOG_KEY_MAX ||
         e.key.len == 0 || e.status < 0 || values.used > sizeof values.scratch))
        abort();
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct log_format format;
    const size_t way = size > 0 ? data[0] % (sizeof WAYS / sizeof WAYS[0]) : 0;
    const struct log_names names = {NULL, WAYS[way].key, WAYS[way].cost, NULL, LOG_TIME_AUTO};
    struct weir__slice rest = {(const char *)data + (size > 0), size - (size > 0)};
    struct log_sample sample = {0};
    struct log_fields fields;
    struct sim_error error;

    sample_lines(&sample, rest);
    if (!log_format_choose(&format, WAYS[way].format, WAYS[way].columns, &sample, &error) ||
        !log_fields_choose(&fields, &format, &names, &sample, &error))
        return 0;
    while (rest.len > 0) {
        const struct weir__slice line = weir__slice_cut(&rest, '\n');

        if (line.len <= LOG_LINE_MAX)
            read_line(&fields, &format, line);
        if (rest.len > 0)
            rest = (struct weir__slice){rest.at + 1, rest.len - 1};
    }
    return 0;
}
