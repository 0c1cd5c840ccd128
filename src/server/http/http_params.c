/* The parameters of a request: those of its query or its body, and the operation they make.
 *
 * A parameter that is unknown, given twice or out of range is refused and named, never ignored: a
 * limiter that overlooks `cots=5` lets five times too much through.
 *
 * A key that is too long is 400, wherever it came from: it is a parameter out of its range, as a
 * cost may be, and neither the target (414) nor the body (413) was too large to be read.
 */
#include "server/http/http_front.h"

#include <stdio.h>
#include <string.h>

#include "base/num.h"

static const struct weir__slice WORDS[] = {
#define X(name, text) {text, sizeof(text) - 1},
    HTTP_WORDS(X)
#undef X
};

enum http_word http_word_of(const struct http_params *params, struct weir__slice name)
{
    for (int i = 0; i < HTTP_WORD_COUNT; i++)
        if (params->may & 1u << i && weir__slice_equal(name, WORDS[i]))
            return (enum http_word)i;
    return HTTP_WORD_COUNT;
}

bool http_params_note(struct http_params *params, enum http_word word, struct http_why *why)
{
    const unsigned bit = 1u << word;

    if (params->given & bit)
        return http_because_of(why, 400, "", WORDS[word], " is given twice");
    params->given |= bit;
    return true;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Where a time is kept; NULL: the parameter is none. */
static int64_t *http_params_time(struct http_params *params, enum http_word word)
{
    switch (word) {
    case HTTP_WORD_WAIT:
    case HTTP_WORD_PATIENCE: return &params->patience_ns;
    case HTTP_WORD_TTL: return &params->ttl_ns;
    case HTTP_WORD_TOOK: return &params->took_ns;
    default: return NULL;
    }
}

struct weir__slice *http_params_slice(struct http_params *params, enum http_word word)
{
    switch (word) {
    case HTTP_WORD_LIMIT: return &params->limit;
    case HTTP_WORD_KEY: return &params->key;
    case HTTP_WORD_NUMBERS: return &params->numbers;
    case HTTP_WORD_TICKET: return &params->ticket;
    case HTTP_WORD_OUTCOME: return &params->outcome;
    case HTTP_WORD_LAPSE: return &params->lapse;
    case HTTP_WORD_ID: return &params->id;
    default: return NULL;
    }
}

bool http_params_number(struct http_params *params, enum http_word word, int64_t number,
                        struct http_why *why)
{
    int64_t *time_ns = http_params_time(params, word);

    if (time_ns) {
        if (number < 0 || __builtin_mul_overflow(number, WEIR__NS_PER_MS, time_ns))
            return http_because_of(why, 400, "", WORDS[word],
                                   " is out of range: expected milliseconds, 0 or more");
        return true;
    }
    if (word == HTTP_WORD_DENY) {
        params->deny = number;
        return number == 403 || number == 429 ||
               http_because(why, 400, "'deny' must be 403 or 429");
    }
    params->cost = number;
    return number >= 0 || http_because(why, 400, "'cost' must not be negative");
}

/* Only who waits may do so for ever. */
static bool http_params_duration(struct http_params *params, enum http_word word,
                                 struct weir__slice text, struct http_why *why)
{
    const bool waits = word == HTTP_WORD_WAIT || word == HTTP_WORD_PATIENCE;
    int64_t *time_ns = http_params_time(params, word);
    char before[32];

    if (wire_patience(text, time_ns) && (waits || *time_ns != WEIR_FOREVER))
        return true;
    (void)snprintf(before, sizeof before, "'%s' is ", WORDS[word].at);
    return http_because_of(why, 400, before, text,
                           waits ? ": expected milliseconds, a duration such as 1.5s, or forever"
                                 : ": expected milliseconds, or a duration such as 1.5s");
}

bool http_params_text(struct http_params *params, enum http_word word, struct weir__slice text,
                      struct http_why *why)
{
    int64_t number;

    if (http_params_time(params, word))
        return http_params_duration(params, word, text, why);
    if (weir__parse_int(text, &number) == WEIR__NUMBER_OK)
        return http_params_number(params, word, number, why);
    return http_because_of(why, 400, word == HTTP_WORD_COST ? "'cost' is " : "'deny' is ", text,
                           word == HTTP_WORD_COST ? ": expected a whole number, 0 or more"
                                                  : ": expected 403 or 429");
}

/* ---- Queries --------------------------------------------------------------------------------- */

static bool http_params_add(struct http_params *params, const struct http_param *p,
                            struct http_why *why)
{
    const enum http_word word = http_word_of(params, p->name);
    struct weir__slice *text = http_params_slice(params, word);

    if (word == HTTP_WORD_COUNT)
        return http_because_of(why, 400, "unknown parameter: ", p->name, "");
    if (!http_params_note(params, word, why))
        return false;
    if (!text)
        return http_params_text(params, word, p->value, why);
    *text = p->value;
    return true;
}

bool http_params_query(struct http_params *params, struct weir__slice query, struct http_why *why)
{
    struct http_param p;
    int read;

    while ((read = http_param_next(&query, &p)) > 0)
        if (!http_params_add(params, &p, why))
            return false;
    return read == 0 || http_because_of(why, 400, "invalid percent-encoding in ", p.name, "");
}

void http_key_of_proxy(const struct http_call *call, struct http_params *params)
{
    const struct weir__slice named = http_field_of(call->rq, "x-weir-key");

    if (params->given & HTTP_MAY(KEY) || named.len == 0)
        return;
    params->key = named;
    params->given |= HTTP_MAY(KEY);
}

/* ---- Operations ------------------------------------------------------------------------------ */

bool http_key_fits(struct conn *c, struct weir__slice key, struct http_why *why)
{
    const size_t max = server_options(conn_server(c))->max_key;
    struct weir__out out = {why->text, sizeof why->text, 0};

    if (!access_key_is_permitted(conn_access(c), key))
        return http_because(why, 403, ACCESS_OTHER_KEY);
    if (key.len <= max)
        return true;

    why->status = 400;
    weir__out_text(&out, "'key' is too long: expected at most ");
    weir__out_int(&out, (int64_t)max);
    weir__out_text(&out, " bytes");
    (void)weir__out_end(&out);
    return false;
}

static bool http_params_numbers(struct conn *c, const struct http_params *params,
                                struct limit_op *op, struct http_why *why)
{
    const char *text;

    if (op->delayed)
        return http_because(why, 400, LIMIT_NUMBERS_AT_ONCE ": use 'numbers' or 'wait', not both");
    op->numbers = limit_numbers(c, op->limit, params->numbers, &why->status, &text);
    return op->numbers || http_because(why, why->status, text);
}

bool http_params_op(struct conn *c, const struct http_params *params, struct limit_op *op,
                    struct http_why *why)
{
    const bool waits = params->given & HTTP_MAY(WAIT), patient = params->given & HTTP_MAY(PATIENCE);
    const int64_t patience_ns = server_patience(conn_server(c), params->patience_ns);
    const char *text;

    if (!(params->given & HTTP_MAY(LIMIT)))
        return http_because(why, 400,
                            "'limit' is missing: expected a name, or a limit such as 10/s");
    if (!(params->given & HTTP_MAY(KEY)))
        return http_because(why, 400, "'key' is missing");
    if (waits && patient)
        return http_because(why, 400, "use 'wait' or 'patience', not both");
    if (!http_key_fits(c, params->key, why))
        return false;
    *op = (struct limit_op){.limit = limit_find(c, params->limit, params->use, &why->status, &text),
                            .key = params->key,
                            .cost = params->given & HTTP_MAY(COST) ? params->cost : 1,
                            .patience_ns = waits || patient ? patience_ns : WEIR_WAIT_DEFAULT,
                            .delayed = waits};
    if (!op->limit && strstr(text, "expected ' + '")) {
        (void)snprintf(why->text, sizeof why->text, "%s (a query or form has + as %%2B)", text);
        return false;
    }
    if (!op->limit)
        return http_because(why, why->status, text);
    return !(params->given & HTTP_MAY(NUMBERS)) || http_params_numbers(c, params, op, why);
}
