/* The open tickets of each worker, by id and by the end of their lease. See tickets.h.
 *
 * A worker's table has the tickets that its connections have entered. Its lock is held for list
 * work only: a client on another worker may exit a ticket, and finds the table by the id.
 *
 * An id is 128 bits of SipHash over a counter, with a secret that the worker draws when it starts:
 * clients cannot guess the id of another, and no id comes back after a restart.
 */
#include "server/tickets/ticket_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/hash.h"

#define CHAINS 4096
#define ID_LEN 35 /* t, the worker, two words */

struct ticket_table {
    pthread_mutex_t lock;
    uint64_t secret[2], issued;
    struct due_heap heap;
    struct ticket *chain[CHAINS];
};

struct ticket_table *tickets_open(struct server *s)
{
    struct ticket_table *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    if (getrandom(t->secret, sizeof t->secret, 0) != (ssize_t)sizeof t->secret) {
        free(t);
        return NULL;
    }
    (void)pthread_mutex_init(&t->lock, NULL);
    memory_grow(&s->memory, MEMORY_WORKERS, sizeof *t);
    return t;
}

void tickets_free(struct worker *w)
{
    due_heap_free(&w->tickets->heap);
    (void)pthread_mutex_destroy(&w->tickets->lock);
    free(w->tickets);
}

static struct ticket_table *table_of(struct server *s, int worker)
{
    return s->workers[worker].tickets;
}

static struct ticket_table *table_lock(struct ticket_table *t)
{
    (void)pthread_mutex_lock(&t->lock);
    return t;
}

static void table_unlock(struct ticket_table *t)
{
    (void)pthread_mutex_unlock(&t->lock);
}

/* ---- Tickets --------------------------------------------------------------------------------- */

static size_t entered_bytes(int terms)
{
    return offsetof(struct weir_ticket, term) +
           (size_t)terms * sizeof((struct weir_ticket *)0)->term[0];
}

struct ticket *ticket_make(struct conn *c, const struct limit *l, int64_t ttl_ns, bool tied)
{
    const size_t bytes = sizeof(struct ticket) + entered_bytes(l->parsed->n);
    struct ticket_holders holders;
    struct ticket *t;

    /* with its places in heap and chain */
    if (!memory_admit_ticket(c, c->tickets_n, bytes + memory_of_limit(l) + sizeof t + MEMORY_PIECE,
                             &holders))
        return NULL;
    t = calloc(1, bytes);
    if (!t) {
        memory_release_ticket(c->worker->server, &holders);
        return NULL;
    }
    t->conn = c;
    t->limit = l;
    limit_retain(l);
    t->holders = holders;
    t->tied = tied;
    t->ttl_ns = ttl_ns;
    t->room = l->parsed->n;
    return t;
}

void ticket_free(struct server *s, struct ticket *t)
{
    limit_release(t->limit);
    memory_release_ticket(s, &t->holders);
    free(t);
}

void ticket_load(const struct ticket *t, struct weir_ticket *entered)
{
    memcpy(entered, t->entered, entered_bytes(t->room));
}

void ticket_save(struct ticket *t, const struct weir_ticket *entered)
{
    memcpy(t->entered, entered, entered_bytes(t->room));
}

int64_t ticket_ttl_ns(const struct ticket *t)
{
    return t->ttl_ns;
}

/* ---- Ids ------------------------------------------------------------------------------------- */

/* What another daemon needs, as hex digits: cost, name in the Redis, limit, key. */
static size_t ticket_print_parts(const struct limit_op *op, char *text)
{
    char parts[24 + TICKET_NAME + WEIR_NAME_MAX + TICKET_KEY];
    const int head = snprintf(parts, sizeof parts, "%lld %s %s ", (long long)op->cost,
                              op->ticket->name, op->limit->name);
    size_t len = (size_t)head;

    memcpy(parts + len, op->key.at, op->key.len);
    len += op->key.len;
    for (size_t i = 0; i < len; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", (unsigned char)parts[i]);
    return 2 * len;
}

size_t ticket_print(const struct limit_op *op, char text[TICKET_TEXT])
{
    const struct ticket *t = op->ticket;
    const bool named = !((const struct limit_entry *)t->limit)->anonymous;

    (void)snprintf(text, TICKET_TEXT, "t%02x%016llx%016llx", (unsigned)t->owner,
                   (unsigned long long)t->id[0], (unsigned long long)t->id[1]);
    if (!t->name[0] || !named || op->key.len > TICKET_KEY)
        return ID_LEN;
    text[ID_LEN] = '-';
    return ID_LEN + 1 + ticket_print_parts(op, text + ID_LEN + 1);
}

/* Reads `digits` hex digits. False: they are none. */
static bool read_hex(const char *at, int digits, uint64_t *value)
{
    *value = 0;
    for (int i = 0; i < digits; i++) {
        const char c = at[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        *value = *value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return true;
}

static bool ticket_read(struct weir__slice text, int workers, int *owner, uint64_t id[2])
{
    uint64_t worker;

    if (text.len < ID_LEN || (text.len > ID_LEN && text.at[ID_LEN] != '-') || text.at[0] != 't' ||
        !read_hex(text.at + 1, 2, &worker) || !read_hex(text.at + 3, 16, &id[0]) ||
        !read_hex(text.at + 19, 16, &id[1]))
        return false;
    *owner = (int)worker;
    return *owner < workers;
}

/* The bytes of the parts; 0: there are none. */
static size_t ticket_decode_parts(struct weir__slice id, char *parts, size_t cap)
{
    const size_t digits = id.len > ID_LEN + 1 ? id.len - ID_LEN - 1 : 0;
    uint64_t byte;

    if (digits == 0 || digits % 2 != 0 || digits / 2 > cap || id.at[0] != 't' ||
        id.at[ID_LEN] != '-')
        return 0;
    for (size_t i = 0; i < digits / 2; i++) {
        if (!read_hex(id.at + ID_LEN + 1 + 2 * i, 2, &byte))
            return 0;
        parts[i] = (char)byte;
    }
    return digits / 2;
}

bool ticket_read_parts(struct weir__slice id, struct ticket_parts *p)
{
    struct weir__slice rest = {p->bytes, ticket_decode_parts(id, p->bytes, sizeof p->bytes)}, cost;

    cost = weir__slice_cut(&rest, ' ');
    if (weir__parse_int(cost, &p->cost) != WEIR__NUMBER_OK || p->cost < 1 ||
        p->cost > WEIR_LOG_COUNT_MAX || rest.len == 0)
        return false;
    rest = (struct weir__slice){rest.at + 1, rest.len - 1};
    p->name = weir__slice_cut(&rest, ' ');
    if (rest.len == 0 || p->name.len == 0 || p->name.len >= TICKET_NAME)
        return false;
    rest = (struct weir__slice){rest.at + 1, rest.len - 1};
    p->limit = weir__slice_cut(&rest, ' ');
    if (rest.len == 0)
        return false;
    p->key = (struct weir__slice){rest.at + 1, rest.len - 1};
    return true;
}

/* ---- In the table ---------------------------------------------------------------------------- */

static struct ticket **ticket_find_locked(struct ticket_table *table, const uint64_t id[2])
{
    struct ticket **at = &table->chain[id[0] % CHAINS];

    while (*at && ((*at)->id[0] != id[0] || (*at)->id[1] != id[1]))
        at = &(*at)->next;
    return at;
}

static void ticket_link_locked(struct ticket *t)
{
    struct conn *c = t->conn;

    t->later = c->tickets;
    if (t->later)
        t->later->sooner = t;
    c->tickets = t;
    c->tickets_n++;
    if (t->tied)
        atomic_fetch_add(&c->tied, 1);
}

static void ticket_unlink_locked(struct ticket *t)
{
    struct conn *c = t->conn;

    if (!c)
        return;
    *(t->sooner ? &t->sooner->later : &c->tickets) = t->later;
    if (t->later)
        t->later->sooner = t->sooner;
    t->later = t->sooner = NULL;
    t->conn = NULL;
    if (t->tied)
        atomic_fetch_sub(&c->tied, 1);
    c->tickets_n--; /* last: its worker may free a connection that has none */
}

static void ticket_name_locked(struct ticket_table *table, struct ticket *t)
{
    for (uint64_t i = 0; i < 2; i++) {
        const uint64_t count = table->issued++;

        t->id[i] = weir__hash(&count, sizeof count, table->secret);
    }
}

bool ticket_add(struct worker *w, struct ticket *t)
{
    struct ticket_table *table = table_lock(w->tickets);
    const bool added = due_heap_add(&table->heap, &t->due);

    if (added) {
        t->owner = w->index;
        ticket_name_locked(table, t);
        t->next = table->chain[t->id[0] % CHAINS];
        table->chain[t->id[0] % CHAINS] = t;
        ticket_link_locked(t);
        atomic_fetch_add(&w->server->open_tickets, 1);
    }
    table_unlock(table);
    return added;
}

static void ticket_remove_locked(struct server *s, struct ticket_table *table, struct ticket *t)
{
    *ticket_find_locked(table, t->id) = t->next;
    due_heap_remove(&table->heap, &t->due);
    ticket_unlink_locked(t);
    atomic_fetch_sub(&s->open_tickets, 1);
}

void ticket_remove(struct server *s, struct ticket *t)
{
    struct ticket_table *table = table_lock(table_of(s, t->owner));

    ticket_remove_locked(s, table, t);
    table_unlock(table);
}

struct ticket *ticket_claim(struct server *s, struct weir__slice id)
{
    struct ticket_table *table;
    struct ticket *t;
    uint64_t word[2];
    int owner;

    if (!ticket_read(id, s->threads, &owner, word))
        return NULL;
    table = table_lock(table_of(s, owner));
    t = *ticket_find_locked(table, word);
    if (t && t->ending)
        t = NULL;
    if (t)
        t->ending = t->by_client = true;
    table_unlock(table);
    return t;
}

#define BUSY_NS (WEIR__NS_PER_S / 4) /* a ticket that is due and ending is looked at again then */

struct ticket *ticket_claim_due(struct worker *w, int64_t now_ns)
{
    struct ticket_table *table = table_lock(w->tickets);
    struct due_item *first;
    struct ticket *t = NULL;

    while (!t && (first = due_heap_first(&table->heap)) && first->due_ns <= now_ns) {
        if (((struct ticket *)first)->ending)
            due_heap_set(&table->heap, first, now_ns + BUSY_NS);
        else
            t = (struct ticket *)first;
    }
    if (t) {
        t->ending = true;
        t->by_client = false;
    }
    table_unlock(table);
    return t;
}

void ticket_unclaim(struct server *s, struct ticket *t, int64_t due_ns)
{
    struct ticket_table *table = table_lock(table_of(s, t->owner));

    t->ending = false;
    if (due_ns > 0)
        due_heap_set(&table->heap, &t->due, due_ns);
    table_unlock(table);
}

int64_t tickets_next_ns(struct worker *w)
{
    struct ticket_table *table = table_lock(w->tickets);
    const struct due_item *first = due_heap_first(&table->heap);
    const int64_t next_ns = first ? first->due_ns : INT64_MAX;

    table_unlock(table);
    return next_ns;
}

struct ticket *tickets_pop(struct worker *w)
{
    struct ticket_table *table = table_lock(w->tickets);
    struct ticket *t = (struct ticket *)due_heap_first(&table->heap);

    if (t)
        ticket_remove_locked(w->server, table, t);
    table_unlock(table);
    return t;
}

bool tickets_detach(struct conn *c)
{
    struct ticket_table *table = table_lock(c->worker->tickets);
    bool any = false;

    while (c->tickets) {
        struct ticket *t = c->tickets;

        ticket_unlink_locked(t);
        if (!t->tied)
            continue;
        t->left = any = true;
        due_heap_set(&table->heap, &t->due, 0);
    }
    table_unlock(table);
    return any;
}
