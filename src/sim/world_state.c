/* Prints the states of a key's guards in words. docs/reference/sim.md has the list: people read it,
 * and programs split it at its blanks. */
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

struct weir__slice sim__guard_states(struct sim_world *w, struct sim_record *r)
{
    struct weir__out o = {w->state, sizeof w->state, 0};
    const struct sim_revision *e = w->revision;

    for (int i = 0; i < e->n; i++) {
        struct weir_view view;

        if (!weir__meter_guards(&e->meter[i]))
            continue;
        weir__meter_view(&e->meter[i], sim__state(w, r, i), sim__now(w), &view);
        weir__out_text(&o, o.len > 0 ? " + " : "");
        sim_state_print(&o, &e->meter[i].term, &view, r->wait_list ? r->wait_list->length : 0);
    }
    (void)weir__out_end(&o);
    return (struct weir__slice){w->state, o.len < sizeof w->state ? o.len : sizeof w->state - 1};
}
