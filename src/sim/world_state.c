/* Prints the states of a key's guards in words, and whether the key has no place.
 * docs/reference/sim.md has the list: people read it, and programs split it at its blanks. */
#include "sim/world_internal.h"

static void state_word(struct weir__out *o, size_t start, const char *text)
{
    weir__out_text(o, o->len > start ? " " : "");
    weir__out_text(o, text);
}

static void state_number(struct weir__out *o, size_t start, const char *name, int64_t value)
{
    if (value < 0)
        return;
    state_word(o, start, name);
    weir__out_int(o, value);
}

void sim_state_print(struct weir__out *o, const struct weir_term *t, const struct weir_view *v,
                     int64_t waiting)
{
    const size_t start = o->len;

    if (t->algorithm == WEIR_BREAKER || v->state != WEIR_CLOSED)
        state_word(o, start, weir_guard_state_name(v->state));
    state_number(o, start, "limit=", v->limit);
    state_number(o, start, "inflight=", v->in_flight);
    if (t->algorithm == WEIR_CONCURRENCY && t->queue > 0)
        state_number(o, start, "waiting=", waiting);
    state_number(o, start, "rate=", v->rate);
    if (v->rate >= 0) {
        weir__out_text(o, "/");
        weir__out_period(o, t->period_ns);
    }
    if (o->len == start) /* the guard has nothing to show */
        weir__out_text(o, "-");
}

static void note_guard(struct sim_outcome *out, const struct weir_view *v)
{
    if (v->in_flight > out->guard.in_flight)
        out->guard.in_flight = v->in_flight;
    if (v->limit > 0 && (out->guard.limit == 0 || v->limit < out->guard.limit))
        out->guard.limit = v->limit;
    out->guard.states |= 1u << v->state;
}

/* Adds the states of the key's guards. */
static int add_guards(struct sim_world *w, struct weir__out *o, struct sim_outcome *out)
{
    const struct weir_request rq = sim__request(w, out->key, 0, 0);
    const int64_t waiting = w->queues ? weir__wait_length(w->engine, &rq) : 0;

    for (int i = 0; i < w->limit.n; i++) {
        struct weir_view view;
        int code;

        if (w->limit.term[i].algorithm < WEIR_FIRST_GUARD)
            continue;
        code = weir_guard_view_at(w->engine, &rq, i, sim__now(w).now_ns, &view);
        if (code)
            return code;
        weir__out_text(o, o->len > 0 ? " + " : "");
        sim_state_print(o, &w->limit.term[i], &view, waiting);
        note_guard(out, &view);
    }
    return 0;
}

bool sim__state(struct sim_world *w, struct sim_outcome *out, struct sim_error *error)
{
    struct weir__out o = {w->state, sizeof w->state, 0};
    const int code = w->guards ? add_guards(w, &o, out) : 0;

    if (out->verdict.warned)
        weir__out_text(&o, o.len > 0 ? " warned" : "warned");
    if (out->verdict.overflow)
        weir__out_text(&o, o.len > 0 ? " overflow" : "overflow");
    (void)weir__out_end(&o);
    out->state =
        (struct weir__slice){w->state, o.len < sizeof w->state ? o.len : sizeof w->state - 1};
    return code == 0 || sim__failed(error, "state", code);
}
