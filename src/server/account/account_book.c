/* Which reservations are open, and for how many keys, by connection, address and token.
 *
 * An entry is found by the number of its reservation, and retains those that it counts for. It ends
 * when the reservation is settled, or once it has lapsed and the store does not keep the account of
 * its key any more: until then it takes room there. Entries that have lapsed are looked for when a
 * client is at its bound, at most every TIDY_NS.
 *
 * Invariants:
 *   (1) The counts of a client are the entries that it has and that have not lapsed, and the keys
 *       of all that it has. Keys in a remote store do not count.
 *   (2) One look asks the store about LOOKS_MOST accounts at most, and about none after an error
 *       (a process that was stopped may hold a lock): so the lock of the book is held for
 *       microseconds, and not for milliseconds.
 */
#include <pthread.h>
#include <stdlib.h>

#include "server/access/access_files.h"
#include "server/account/account_keys.h"
#include "server/internal.h"

#define CHAINS     8192
#define TIDY_NS    (10 * WEIR__NS_PER_MS)
#define LOOKS_MOST 256

/* What a connection holds; it may end before that. */
struct account_holder {
    struct account_counts accounts;
    unsigned entries;
    bool gone; /* the connection has ended */
};

struct account_entry {
    struct account_entry *next;
    uint64_t number;
    int64_t lapse_ns;
    bool lapsed;         /* it counts by its key alone */
    struct weir *engine; /* of the store that keeps the account ... */
    uint64_t account;    /* ... of its key; 0: a remote one */
    struct account_holder *holder;
    struct peer *from, *tenant; /* tenant: or NULL */
};

struct account_book {
    pthread_mutex_t lock; /* guards all of it, and the counts of holders and peers */
    uint64_t open;
    int64_t tidied_ns;
    unsigned first; /* the chain that the next look begins with */
    struct account_entry *chain[CHAINS];
    struct account_keys keys;
};

struct account_book *account_book_open(void)
{
    struct account_book *b = calloc(1, sizeof *b);

    if (b)
        (void)pthread_mutex_init(&b->lock, NULL);
    return b;
}

/* ---- Entries --------------------------------------------------------------------------------- */

#define CLIENTS 3 /* that an entry counts for */

static void entry_clients(const struct account_entry *e, struct account_counts *of[CLIENTS])
{
    of[0] = &e->holder->accounts;
    of[1] = &e->from->accounts;
    of[2] = e->tenant ? &e->tenant->accounts : NULL;
}

/* Counts the reservation, up or down, for all that have it. */
static void entry_count_for_clients(struct account_book *b, const struct account_entry *e,
                                    int64_t change)
{
    struct account_counts *of[CLIENTS];

    entry_clients(e, of);
    b->open += (uint64_t)change;
    for (int i = 0; i < CLIENTS; i++)
        if (of[i])
            of[i]->reservations += (uint64_t)change;
}

static void holder_leave(struct account_holder *h)
{
    h->entries--;
    if (h->gone && h->entries == 0)
        free(h);
}

/* Removes the entry; its peers are left by the caller, without the lock of the book. */
static struct account_entry *entry_unlink(struct account_book *b, struct account_entry **at)
{
    struct account_counts *of[CLIENTS];
    struct account_entry *e = *at;

    *at = e->next;
    e->next = NULL;
    entry_clients(e, of);
    for (int i = 0; e->account && i < CLIENTS; i++)
        if (of[i])
            account_keys_remove(&b->keys, of[i], e->account);
    if (!e->lapsed)
        entry_count_for_clients(b, e, -1);
    holder_leave(e->holder);
    return e;
}

/* The bytes of an entry, with those of its keys. */
static size_t account_entry_bytes(const struct account_entry *e)
{
    return sizeof *e + MEMORY_PIECE + (e->account ? CLIENTS * ACCOUNT_KEY_BYTES : 0);
}

static void entries_free(struct server *s, struct account_entry *e)
{
    while (e) {
        struct account_entry *next = e->next;

        peer_leave(s->peers, e->from);
        if (e->tenant)
            peer_leave(s->access->tenants, e->tenant);
        memory_shrink(&s->memory, MEMORY_RESERVATIONS, account_entry_bytes(e));
        free(e);
        e = next;
    }
}

void account_book_close(struct server *s)
{
    struct account_book *b = s->accounts;

    for (int i = 0; b && i < CHAINS; i++)
        while (b->chain[i])
            entries_free(s, entry_unlink(b, &b->chain[i]));
    if (b)
        (void)pthread_mutex_destroy(&b->lock);
    free(b);
}

/* ---- Those that have lapsed ------------------------------------------------------------------ */

/* Whether the store has let go of the account. *looks: how often the store may still be asked. */
static bool entry_has_ended(const struct account_entry *e, int64_t now_ns, int *looks)
{
    bool kept = true;

    if (!e->account)
        return true;
    if (*looks == 0)
        return false;
    --*looks;
    if (weir__account_is_kept(e->engine, e->account, now_ns, &kept) != 0)
        *looks = 0;
    return !kept;
}

/* Returns the entries that have ended. */
static struct account_entry *book_tidy_locked(struct account_book *b, int64_t now_ns)
{
    struct account_entry *ended = NULL;
    int looks = LOOKS_MOST;

    if (now_ns - b->tidied_ns < TIDY_NS && now_ns >= b->tidied_ns)
        return NULL;
    b->tidied_ns = now_ns;
    for (unsigned i = 0, first = b->first; i < CHAINS; i++) {
        struct account_entry **at = &b->chain[(first + i) % CHAINS];

        while (*at) {
            struct account_entry *e = *at;

            if (!e->lapsed && e->lapse_ns <= now_ns) {
                e->lapsed = true;
                entry_count_for_clients(b, e, -1);
            }
            if (!e->lapsed || !entry_has_ended(e, now_ns, &looks)) {
                at = &e->next;
                continue;
            }
            e = entry_unlink(b, at);
            e->next = ended;
            ended = e;
        }
        if (looks > 0)
            b->first = (first + i + 1) % CHAINS;
    }
    return ended;
}

/* ---- Clients --------------------------------------------------------------------------------- */

/* The account of a reservation's key, and for how many keys its store has room. */
struct account_place {
    uint64_t account, room;
};

static struct account_place account_place_of(const struct limit_op *op)
{
    struct weir *w = store_of(op->limit)->engine;
    const struct weir_request rq = op_request(op);

    return (struct account_place){op->limit->policy ? weir__account_of(w, &rq) : 0,
                                  weir__account_room(w)};
}

/* Whether a client may have one more, in that place. */
static bool client_admits(const struct account_book *b, const struct account_counts *has,
                          struct account_counts most, const struct account_place *place)
{
    return has->reservations < most.reservations &&
           (!place->account || has->keys < most.keys ||
            account_keys_has(&b->keys, has, place->account));
}

static bool book_admits_locked(const struct account_book *b, const struct conn *c,
                               const struct account_place *place)
{
    static const struct account_counts NONE;
    const struct account_counts *own = c->holder ? &c->holder->accounts : &NONE;

    return b->open < ACCOUNTS_MOST &&
           client_admits(b, own, memory_accounts_part(c, NULL, place->room), place) &&
           client_admits(b, &c->from->accounts, memory_accounts_part(c, c->from, place->room),
                         place) &&
           (!c->tenant || client_admits(b, &c->tenant->accounts,
                                        memory_accounts_part(c, c->tenant, place->room), place));
}

bool account_admits(struct conn *c, const struct limit_op *op, int64_t now_ns)
{
    struct account_book *b = c->worker->server->accounts;
    const struct account_place place = account_place_of(op);
    struct account_entry *ended = NULL;
    bool admits;

    (void)pthread_mutex_lock(&b->lock);
    admits = book_admits_locked(b, c, &place);
    if (!admits) {
        ended = book_tidy_locked(b, now_ns);
        admits = book_admits_locked(b, c, &place);
    }
    (void)pthread_mutex_unlock(&b->lock);
    entries_free(c->worker->server, ended);
    return admits;
}

/* Adds the key of the entry to all that have it. False: there is no memory for it. */
static bool entry_add_keys_locked(struct account_book *b, const struct account_entry *e)
{
    struct account_counts *of[CLIENTS];

    entry_clients(e, of);
    for (int i = 0; e->account && i < CLIENTS; i++) {
        if (!of[i] || account_keys_add(&b->keys, of[i], e->account))
            continue;
        while (--i >= 0)
            if (of[i])
                account_keys_remove(&b->keys, of[i], e->account);
        return false;
    }
    return true;
}

static bool book_add_locked(struct account_book *b, struct account_entry *e)
{
    if (!entry_add_keys_locked(b, e))
        return false;
    e->next = b->chain[e->number % CHAINS];
    b->chain[e->number % CHAINS] = e;
    e->holder->entries++;
    entry_count_for_clients(b, e, 1);
    return true;
}

void account_enter(struct conn *c, const struct limit_op *op, int64_t lapse_ns)
{
    struct server *s = c->worker->server;
    struct account_entry *e = calloc(1, sizeof *e);
    bool added;

    if (e && !c->holder)
        c->holder = calloc(1, sizeof *c->holder);
    if (!e || !c->holder) {
        free(e); /* then it is not counted */
        return;
    }
    *e = (struct account_entry){.number = op->id,
                                .lapse_ns = lapse_ns,
                                .engine = store_of(op->limit)->engine,
                                .account = account_place_of(op).account,
                                .holder = c->holder,
                                .from = c->from,
                                .tenant = c->tenant};
    peer_retain(s->peers, c->from);
    if (c->tenant)
        peer_retain(s->access->tenants, c->tenant);
    memory_grow(&s->memory, MEMORY_RESERVATIONS, account_entry_bytes(e));
    (void)pthread_mutex_lock(&s->accounts->lock);
    added = book_add_locked(s->accounts, e);
    (void)pthread_mutex_unlock(&s->accounts->lock);
    if (!added)
        entries_free(s, e);
}

void account_leave(struct server *s, uint64_t number)
{
    struct account_book *b = s->accounts;
    struct account_entry *e = NULL, **at = &b->chain[number % CHAINS];

    (void)pthread_mutex_lock(&b->lock);
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    if (*at)
        e = entry_unlink(b, at);
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
    if (c->holder->entries == 0)
        free(c->holder);
    c->holder = NULL;
    (void)pthread_mutex_unlock(&b->lock);
}
