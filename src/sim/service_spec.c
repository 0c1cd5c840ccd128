/* Reads the text of a simulated service. */
#include "sim/service.h"

#include <stdio.h>

#include "base/num.h"

static bool service_read_share(struct weir__slice text, int64_t unit, int64_t *value)
{
    return weir__parse_decimal(text, unit, value) == WEIR__NUMBER_OK && *value <= 100 * unit;
}

static bool without_percent(struct weir__slice *text)
{
    if (text->len == 0 || text->at[text->len - 1] != '%')
        return false;
    text->len--;
    return true;
}

/* Cuts off the text before the next "..". False: there is none, and *head is all the text. */
static bool cut_dots(struct weir__slice *text, struct weir__slice *head)
{
    *head = *text;
    for (size_t i = 0; i + 2 <= text->len; i++) {
        if (text->at[i] != '.' || text->at[i + 1] != '.')
            continue;
        head->len = i;
        *text = (struct weir__slice){text->at + i + 2, text->len - i - 2};
        return true;
    }
    return false;
}

/* 5%, 0..30%, 0..60..0% */
static bool read_errors(struct service_spec *p, struct weir__slice text)
{
    struct weir__slice one;
    bool more = without_percent(&text);

    for (p->errors = 0; more && p->errors < SERVICE_STEPS_MAX; p->errors++) {
        more = cut_dots(&text, &one);
        if (!service_read_share(one, 1000, &p->error[p->errors]))
            return false;
    }
    return !more && p->errors > 0;
}

static bool read_count(struct weir__slice value, int64_t least, int64_t *n)
{
    return weir__parse_count(value, n) == WEIR__NUMBER_OK && *n >= least && *n <= SERVICE_QUEUE_MAX;
}

static bool read_workers(struct service_spec *p, struct weir__slice value)
{
    return read_count(value, 1, &p->workers);
}

static bool read_queue(struct service_spec *p, struct weir__slice value)
{
    return read_count(value, 0, &p->queue);
}

static bool service_read_timeout(struct service_spec *p, struct weir__slice value)
{
    if (weir__slice_is(value, "none")) {
        p->timeout_ns = INT64_MAX;
        return true;
    }
    return weir__parse_duration(value, &p->timeout_ns) == WEIR__NUMBER_OK && p->timeout_ns > 0;
}

static bool read_jitter(struct service_spec *p, struct weir__slice value)
{
    return without_percent(&value) && service_read_share(value, 10, &p->jitter_milli);
}

static bool read_seed(struct service_spec *p, struct weir__slice value)
{
    int64_t seed = 0;
    const bool ok = weir__parse_int(value, &seed) == WEIR__NUMBER_OK;

    p->seed = (uint64_t)seed;
    return ok;
}

static const struct setting {
    const char *name;
    bool (*read)(struct service_spec *p, struct weir__slice value);
    const char *expected;
} SETTINGS[] = {
    {"workers", read_workers, "1 .. 1000000"},
    {"errors", read_errors, "a share such as 5% (0% .. 100%), or up to 8 such as 0..60..0%"},
    {"queue", read_queue, "0 .. 1000000"},
    {"timeout", service_read_timeout, "none or a duration such as 1s"},
    {"jitter", read_jitter, "a share such as 10% (0% .. 100%)"},
    {"seed", read_seed, "a whole number"},
};
enum { SETTING_COUNT = sizeof SETTINGS / sizeof SETTINGS[0] };

static bool service_read_setting(struct service_spec *p, struct weir__slice word,
                                 struct sim_error *error)
{
    struct weir__slice value = word;
    const struct weir__slice name = weir__slice_cut(&value, '=');
    char expected[128];

    if (value.len > 0)
        value = (struct weir__slice){value.at + 1, value.len - 1};
    for (int i = 0; i < SETTING_COUNT; i++) {
        if (!weir__slice_is(name, SETTINGS[i].name))
            continue;
        (void)snprintf(expected, sizeof expected, " is not valid; expected %s",
                       SETTINGS[i].expected);
        return SETTINGS[i].read(p, value) ||
               sim_fail_word(error, "traffic: service: ", word, expected);
    }
    return sim_fail_word(error, "traffic: service: unknown setting ", name,
                         "; expected workers=N, errors=R% or R..R%, queue=N, timeout=DURATION, "
                         "jitter=R% or seed=N");
}

bool service_spec_parse(struct service_spec *p, struct weir__slice text, struct sim_error *error)
{
    struct weir__slice word = weir__slice_word(&text);

    *p = (struct service_spec){
        .workers = 1, .queue = 1000, .timeout_ns = WEIR__NS_PER_S, .errors = 1};
    if (weir__parse_duration(word, &p->time_ns) != WEIR__NUMBER_OK || p->time_ns == 0 ||
        p->time_ns > WEIR_PERIOD_MAX_NS)
        return sim_fail(error, "traffic: expected 'service DURATION workers=N', such as 'service "
                               "20ms workers=8 errors=0..30%%'");
    while ((word = weir__slice_word(&text)).len > 0)
        if (!service_read_setting(p, word, error))
            return false;
    return true;
}
