/* Reservations that were answered, by the names that their connections gave them. */
#include <stdlib.h>
#include <string.h>

#include "server/delayed/delayed.h"

/* A reservation that is answered and can still be cancelled. */
struct reservation {
    struct reservation *next;
    const struct limit *limit; /* retained: its policy must exist for the refund */
    struct weir_reservation taken;
    int64_t act_ns; /* by the daemon's clock */
    size_t len;
    char name[];
};

static size_t reservation_bytes(size_t name)
{
    return sizeof(struct reservation) + name + MEMORY_PIECE;
}

static struct reservation **reservation_find(struct conn *c, struct weir__slice name)
{
    struct reservation **at = &c->named;

    while (*at && ((*at)->len != name.len || memcmp((*at)->name, name.at, name.len) != 0))
        at = &(*at)->next;
    return at;
}

static void reservation_forget(struct conn *c, struct reservation **at)
{
    struct reservation *r = *at;

    *at = r->next;
    c->names--;
    memory_remove(c, MEMORY_RESERVATIONS, reservation_bytes(r->len));
    memory_remove_limit(c, r->limit);
    limit_release(r->limit);
    free(r);
}

/* A reservation whose time to act has come can give nothing back. */
static void reservation_forget_acted(struct conn *c)
{
    const int64_t now_ns = weir_now(c->worker->server->engine);
    struct reservation **at = &c->named;

    while (*at)
        if ((*at)->act_ns < now_ns)
            reservation_forget(c, at);
        else
            at = &(*at)->next;
}

static bool reservation_fits(const struct conn *c, const struct limit_op *op)
{
    return !conn_names_are_full(c) &&
           memory_fits(c, reservation_bytes(op->name.len) + memory_of_limit(op->limit));
}

bool reservation_has_room(struct conn *c, const struct limit_op *op)
{
    if (reservation_fits(c, op))
        return true;
    reservation_forget_acted(c);
    return reservation_fits(c, op);
}

void reservation_keep(struct delayed_reply *h)
{
    struct conn *c = h->conn;
    const struct weir__slice name = h->op.name;
    struct reservation **at = reservation_find(c, name), *r;

    if (*at)
        reservation_forget(c, at);
    r = malloc(sizeof *r + name.len);
    if (!r)
        return; /* then it cannot be cancelled by name */
    r->taken = h->reservation;
    r->act_ns = h->act_ns;
    r->limit = h->op.limit;
    limit_retain(r->limit);
    r->len = name.len;
    memcpy(r->name, name.at, name.len);
    r->next = c->named;
    c->named = r;
    c->names++;
    memory_add(c, MEMORY_RESERVATIONS, reservation_bytes(r->len));
    memory_add_limit(c, r->limit);
}

bool reservation_cancel(struct conn *c, struct weir__slice name, int64_t *back)
{
    struct reservation **at = reservation_find(c, name);

    if (!*at)
        return false;
    if (store_of((*at)->limit)->remote)
        remote_sync(c->worker, store_of((*at)->limit));
    *back = 0;
    (void)weir_cancel(store_of((*at)->limit)->engine, &(*at)->taken, back);
    reservation_forget(c, at);
    return true;
}

void reservation_abandon(struct conn *c)
{
    while (c->named) {
        (void)weir_cancel(store_of(c->named->limit)->engine, &c->named->taken, NULL);
        reservation_forget(c, &c->named);
    }
}
