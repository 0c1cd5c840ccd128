/* Reservations that were answered, by the names that their connections gave them. */
#include <stdlib.h>
#include <string.h>

#include "server/hold.h"

/* One that is answered already, and could be cancelled. */
struct reservation {
    struct reservation *next;
    const struct limit *limit; /* held: its policy must be there to give back to */
    struct weir_reservation taken;
    int64_t act_ns; /* by the daemon's clock */
    size_t len;
    char name[];
};

static size_t bytes_of(size_t name)
{
    return sizeof(struct reservation) + name + MEMORY_PIECE;
}

static struct reservation **find_name(struct conn *c, struct weir__slice name)
{
    struct reservation **at = &c->named;

    while (*at && ((*at)->len != name.len || memcmp((*at)->name, name.at, name.len) != 0))
        at = &(*at)->next;
    return at;
}

static void forget_name(struct conn *c, struct reservation **at)
{
    struct reservation *r = *at;

    *at = r->next;
    c->names--;
    memory_remove(c, MEMORY_RESERVATIONS, bytes_of(r->len));
    memory_remove_limit(c, r->limit);
    limit_let_go(r->limit);
    free(r);
}

/* Those that have acted can give nothing back. */
static void forget_acted(struct conn *c)
{
    const int64_t now_ns = weir_now(c->worker->server->engine);
    struct reservation **at = &c->named;

    while (*at)
        if ((*at)->act_ns < now_ns)
            forget_name(c, at);
        else
            at = &(*at)->next;
}

static bool has_room(const struct conn *c, const struct question *q)
{
    return c->names + c->held < HELD_IN_CONN &&
           memory_fits(c, bytes_of(q->name.len) + memory_of_limit(q->limit));
}

bool reserved_has_room(struct conn *c, const struct question *q)
{
    if (has_room(c, q))
        return true;
    forget_acted(c);
    return has_room(c, q);
}

void reserved_keep(struct hold *h)
{
    struct conn *c = h->conn;
    const struct weir__slice name = h->question.name;
    struct reservation **at = find_name(c, name), *r;

    if (*at)
        forget_name(c, at);
    r = malloc(sizeof *r + name.len);
    if (!r)
        return; /* then it cannot be cancelled by name */
    r->taken = h->reservation;
    r->act_ns = h->act_ns;
    r->limit = h->question.limit;
    limit_hold(r->limit);
    r->len = name.len;
    memcpy(r->name, name.at, name.len);
    r->next = c->named;
    c->named = r;
    c->names++;
    memory_add(c, MEMORY_RESERVATIONS, bytes_of(r->len));
    memory_add_limit(c, r->limit);
}

bool reserved_cancel(struct conn *c, struct weir__slice name, int64_t *back)
{
    struct reservation **at = find_name(c, name);

    if (!*at)
        return false;
    if (store_of((*at)->limit)->far)
        far_settle(c->worker, store_of((*at)->limit));
    *back = 0;
    (void)weir_cancel(store_of((*at)->limit)->engine, &(*at)->taken, back);
    forget_name(c, at);
    return true;
}

void reserved_abandon(struct conn *c)
{
    while (c->named) {
        (void)weir_cancel(store_of(c->named->limit)->engine, &c->named->taken, NULL);
        forget_name(c, &c->named);
    }
}
