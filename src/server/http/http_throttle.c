/* throttlecrab's request, for clients that move from it.
 *
 *     POST /throttle
 *     {"key":"user:1","max_burst":10,"count_per_period":100,"period":60,"quantity":1}
 *
 *     200
 *     {"allowed":true,"limit":10,"remaining":9,"reset_after":1,"retry_after":0}
 *
 * A denial is 200 too. Times are seconds, and here they are rounded up. The keys are those of
 * THROTTLE and CL.THROTTLE.
 */
#include "server/http/http_front.h"

#include <jansson.h>
#include <string.h>

#include "server/limits/throttle.h"

static const char *const NUMBERS[] = {[THROTTLE_BURST] = "max_burst",
                                      [THROTTLE_COUNT] = "count_per_period",
                                      [THROTTLE_PERIOD_S] = "period",
                                      [THROTTLE_COST] = "quantity"};
enum { NUMBER_COUNT = sizeof NUMBERS / sizeof NUMBERS[0] };

struct throttle_params {
    struct weir__slice key;
    int64_t number[NUMBER_COUNT];
    unsigned given;
};

static void http_reply_throttle(struct conn *c, const struct limit_op *op, int error,
                                const struct weir_verdict *v)
{
    char body[192], *end;

    if (error) {
        http_fail_error(c, op->shape, error);
        return;
    }
    end = http_put_text(body, v->allowed ? "{\"allowed\":true,\"limit\":"
                                         : "{\"allowed\":false,\"limit\":");
    end = http_put_int(end, v->limit);
    end = http_put_text(end, ",\"remaining\":");
    end = http_put_int(end, v->remaining);
    end = http_put_text(end, ",\"reset_after\":");
    end = http_put_int(end, wire_s(v->reset_after_ns));
    end = http_put_text(end, ",\"retry_after\":");
    end = http_put_int(end, v->allowed ? 0 : wire_s(v->retry_after_ns));
    end = http_put_text(end, "}\n");
    http_reply_fields(c, op, 200, v, body, (size_t)(end - body));
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool throttle_out_of_range(struct http_why *why, const char *name, struct throttle_range r)
{
    struct weir__out out = {why->text, sizeof why->text, 0};

    why->status = 400;
    weir__out_quoted(&out, weir__slice_of(name));
    weir__out_text(&out, " must be a whole number from ");
    weir__out_int(&out, r.least);
    weir__out_text(&out, " to ");
    weir__out_int(&out, r.most);
    (void)weir__out_end(&out);
    return false;
}

static bool throttle_read_number(struct throttle_params *t, const char *name, const json_t *value,
                                 struct http_why *why)
{
    for (int i = 0; i < NUMBER_COUNT; i++) {
        const struct throttle_range r = throttle_range((enum throttle_number)i);

        if (strcmp(name, NUMBERS[i]) != 0)
            continue;
        t->number[i] = json_integer_value(value); /* 0 if it is not an integer */
        if (!json_is_integer(value) || t->number[i] < r.least || t->number[i] > r.most)
            return throttle_out_of_range(why, name, r);
        t->given |= 1u << i;
        return true;
    }
    return http_because_of(why, 400, "unknown member: ", weir__slice_of(name), "");
}

static bool throttle_read_members(struct throttle_params *t, json_t *object, struct http_why *why)
{
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        if (strcmp(name, "key") != 0) {
            if (!throttle_read_number(t, name, value, why))
                return false;
        } else if (!http_json_key(&t->key, weir__slice_of(name), value, why)) {
            return false;
        }
    }
    if (!t->key.at)
        return http_because(why, 400, "'key' is missing");
    for (int i = 0; i < THROTTLE_COST; i++)
        if (!(t->given & 1u << i))
            return http_because_of(why, 400, "", weir__slice_of(NUMBERS[i]), " is missing");
    return true;
}

static bool throttle_read_op(const struct http_call *call, json_t *json, struct limit_op *op,
                             struct http_why *why)
{
    struct throttle_params t = {.number[THROTTLE_COST] = 1};
    const char *text = NULL;

    if (call->rq->query.len > 0 || !json_is_object(json))
        return http_because(why, 400,
                            "expected a JSON object in the body, and no parameters in the query");
    if (!throttle_read_members(&t, json, why))
        return false;
    if (!http_key_fits(call->conn, t.key, why))
        return false;
    if (!throttle_refills(t.number[THROTTLE_BURST], t.number[THROTTLE_COUNT],
                          t.number[THROTTLE_PERIOD_S]))
        return http_because(why, 400, "'max_burst' " THROTTLE_TOO_SLOW);
    *op = (struct limit_op){.limit = limit_throttle(call->conn, t.number[THROTTLE_BURST],
                                                    t.number[THROTTLE_COUNT],
                                                    t.number[THROTTLE_PERIOD_S], &text),
                            .key = t.key,
                            .cost = t.number[THROTTLE_COST],
                            .reply = http_reply_throttle,
                            .shape = call->shape};
    return op->limit || http_because(why, 503, text); /* the numbers are valid: memory is short */
}

void http_throttle(const struct http_call *call)
{
    struct http_why why;
    struct limit_op op;
    json_t *json;

    if (http_json_read(call->rq->body, &json, &why) && throttle_read_op(call, json, &op, &why)) {
        batch_add(call->conn, &op);
        batch_flush(call->conn); /* the key lives as long as the JSON */
    } else {
        http_fail(call, &why);
    }
    http_json_forget();
}
