/* How many reservations are open, by connection, address and token.
 *
 * An entry is found by the number of its reservation, and retains those that it counts for. Entries
 * that have lapsed are removed when a client is at its bound, all at once and at most every
 * TIDY_NS: so at most that long does a lapsed reservation count.
 */
#include "server/account/account.h"

#include <pthread.h>
#include <stdlib.h>

#include "server/access/access_files.h"
#include "server/internal.h"

#define CHAINS  8192
#define TIDY_NS (10 * WEIR__NS_PER_MS)

/* What a connection holds; it may end before that. */
struct account_holder {
    unsigned open;
    bool gone; /* the connection has ended */
};

struct account_entry {
    struct account_entry *next;
    uint64_t number;
    int64_t lapse_ns;
    struct account_holder *holder;
    struct peer *from, *tenant; /* tenant: or NULL */
};

struct account_book {
    pthread_mutex_t lock; /* guards all of it, and the counts of holders and peers */
    uint64_t open;
    int64_t tidied_ns;
    struct account_entry *chain[CHAINS];
};

struct account_book *account_book_open(void)
{
    struct account_book *b = calloc(1, sizeof *b);

    if (b)
        (void)pthread_mutex_init(&b->lock, NULL);
    return b;
}

static void holder_leave(struct account_holder *h)
{
    h->open--;
    if (h->gone && h->open == 0)
        free(h);
}

/* Removes the entry; its peers are left by the caller, without the lock of the book. */
static struct account_entry *entry_unlink(struct account_book *b, struct account_entry **at)
{
    struct account_entry *e = *at;

    *at = e->next;
    b->open--;
    e->from->reservations--;
    if (e->tenant)
        e->tenant->reservations--;
    holder_leave(e->holder);
    return e;
}

static void entries_free(struct server *s, struct account_entry *e)
{
    while (e) {
        struct account_entry *next = e->next;

        peer_leave(s->peers, e->from);
        if (e->tenant)
            peer_leave(s->access->tenants, e->tenant);
        memory_shrink(&s->memory, MEMORY_RESERVATIONS, sizeof *e + MEMORY_PIECE);
        free(e);
        e = next;
    }
}

void account_book_close(struct server *s)
{
    struct account_book *b = s->accounts;

    for (int i = 0; b && i < CHAINS; i++)
        while (b->chain[i]) {
            struct account_entry *e = entry_unlink(b, &b->chain[i]);

            e->next = NULL;
            entries_free(s, e);
        }
    if (b)
        (void)pthread_mutex_destroy(&b->lock);
    free(b);
}

static struct account_entry *book_tidy_locked(struct account_book *b, int64_t now_ns)
{
    struct account_entry *lapsed = NULL;

    if (now_ns - b->tidied_ns < TIDY_NS && now_ns >= b->tidied_ns)
        return NULL;
    b->tidied_ns = now_ns;
    for (int i = 0; i < CHAINS; i++)
        for (struct account_entry **at = &b->chain[i]; *at;) {
            if ((*at)->lapse_ns > now_ns) {
                at = &(*at)->next;
                continue;
            }
            struct account_entry *e = entry_unlink(b, at);

            e->next = lapsed;
            lapsed = e;
        }
    return lapsed;
}

static bool book_admits_locked(const struct account_book *b, const struct conn *c)
{
    return b->open < ACCOUNTS_MOST &&
           (!c->holder || c->holder->open < memory_reservations_part(c, NULL)) &&
           c->from->reservations < memory_reservations_part(c, c->from) &&
           (!c->tenant || c->tenant->reservations < memory_reservations_part(c, c->tenant));
}

bool account_admits(struct conn *c, int64_t now_ns)
{
    struct account_book *b = c->worker->server->accounts;
    struct account_entry *lapsed = NULL;
    bool admits;

    (void)pthread_mutex_lock(&b->lock);
    admits = book_admits_locked(b, c);
    if (!admits) {
        lapsed = book_tidy_locked(b, now_ns);
        admits = book_admits_locked(b, c);
    }
    (void)pthread_mutex_unlock(&b->lock);
    entries_free(c->worker->server, lapsed);
    return admits;
}

void account_enter(struct conn *c, uint64_t number, int64_t lapse_ns)
{
    struct account_book *b = c->worker->server->accounts;
    struct account_entry *e = calloc(1, sizeof *e);

    if (e && !c->holder)
        c->holder = calloc(1, sizeof *c->holder);
    if (!e || !c->holder) {
        free(e); /* then it is not counted */
        return;
    }
    *e = (struct account_entry){.number = number,
                                .lapse_ns = lapse_ns,
                                .holder = c->holder,
                                .from = c->from,
                                .tenant = c->tenant};
    peer_retain(c->worker->server->peers, c->from);
    if (c->tenant)
        peer_retain(c->worker->server->access->tenants, c->tenant);
    memory_grow(&c->worker->server->memory, MEMORY_RESERVATIONS, sizeof *e + MEMORY_PIECE);
    (void)pthread_mutex_lock(&b->lock);
    e->next = b->chain[number % CHAINS];
    b->chain[number % CHAINS] = e;
    b->open++;
    e->from->reservations++;
    if (e->tenant)
        e->tenant->reservations++;
    e->holder->open++;
    (void)pthread_mutex_unlock(&b->lock);
}

void account_leave(struct server *s, uint64_t number)
{
    struct account_book *b = s->accounts;
    struct account_entry *e = NULL, **at = &b->chain[number % CHAINS];

    (void)pthread_mutex_lock(&b->lock);
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    if (*at) {
        e = entry_unlink(b, at);
        e->next = NULL;
    }
    (void)pthread_mutex_unlock(&b->lock);
    entries_free(s, e);
}

void account_conn_ends(struct conn *c)
{
    struct account_book *b = c->worker->server->accounts;

    if (!c->holder)
        return;
    (void)pthread_mutex_lock(&b->lock);
    c->holder->gone = true;
    if (c->holder->open == 0)
        free(c->holder);
    c->holder = NULL;
    (void)pthread_mutex_unlock(&b->lock);
}
