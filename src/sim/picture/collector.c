/* Adds outcomes to a timeline. */
#include "sim/picture/collector.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

/* Remembers the first key, to know whether there is another. Without memory for it there may be. */
static void note_key(struct collector *c, struct weir__slice key)
{
    if (!c->has_key) {
        c->has_key = true;
        c->key = malloc(key.len + 1);
        c->key_len = key.len;
        if (c->key && key.len > 0)
            memcpy(c->key, key.at, key.len);
    }
    c->many_keys |=
        !c->key || key.len != c->key_len || (key.len > 0 && memcmp(c->key, key.at, key.len) != 0);
}

void collector_event(struct collector *c, const struct sim_event *event, int64_t at_ns)
{
    const bool asks = event->verb == SIM_TAKE || event->verb == SIM_ENTER;
    const bool fails =
        event->verb == SIM_EXIT && (event->how == WEIR_ERROR || event->how == WEIR_DROP);

    timeline_add(&c->timeline, 0, &(struct timeline_row){0});
    if (asks) {
        note_key(c, event->key);
        timeline_add(&c->timeline, at_ns, &(struct timeline_row){.asked = event->cost});
    }
    if (fails)
        timeline_add(&c->timeline, at_ns, &(struct timeline_row){.failed = 1});
}

/* A grant is drawn where it acts: that is what shaping does to traffic. A denial's wait_ns is 0. */
static void note_verdict(struct collector *c, const struct sim_outcome *o)
{
    const struct weir_verdict *v = &o->verdict;

    timeline_add(&c->timeline, weir__add_sat(o->time_ns, v->wait_ns),
                 &(struct timeline_row){
                     .passed = v->allowed ? o->cost : 0,
                     .refused = v->allowed ? 0 : o->cost,
                     .delayed = v->allowed && v->wait_ns > 0 ? o->cost : 0,
                     .shadowed = v->allowed && v->reason != WEIR_OK ? o->cost : 0,
                 });
    c->longest_ns = weir__max(c->longest_ns, v->wait_ns);
}

void collector_outcome(struct collector *c, const struct sim_outcome *o)
{
    timeline_add(&c->timeline, 0, &(struct timeline_row){0});
    if (o->verb == SIM_TAKE || o->verb == SIM_ENTER)
        note_verdict(c, o);
    if (o->guard.states != 0)
        timeline_add(&c->timeline, o->time_ns,
                     &(struct timeline_row){.in_flight = o->guard.in_flight,
                                            .in_flight_limit = o->guard.limit,
                                            .states = o->guard.states});
}

void collector_free(struct collector *c)
{
    free(c->key);
}
