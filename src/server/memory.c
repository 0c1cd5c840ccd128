/* Counting what is kept, and the parts of connections and peers. See memory.h. */
#include "server/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "server/access/access_files.h"
#include "server/account/account.h"
#include "server/internal.h"
#include "server/live/override_marks.h"

/* ---- Parts ----------------------------------------------------------------------------------- */

/* Rounded up: a part is never nothing. */
static uint64_t memory_part(uint64_t all, uint64_t of)
{
    return all / of + (all % of != 0);
}

static uint64_t at_least(uint64_t bytes, uint64_t least, uint64_t most)
{
    return bytes >= least ? bytes : least < most ? least : most;
}

/* Every part has room for one request of the largest size and the replies to those before it. */
static struct part memory_parts(const struct part *all, const struct serve_options *o, uint64_t of)
{
    const uint64_t one = o->max_request + o->max_output + READ_BYTES;

    return (struct part){.bytes = at_least(memory_part(all->bytes, of), one, all->bytes),
                         .delayed = memory_part(all->delayed, of),
                         .connections = memory_part(all->connections, of),
                         .handshakes = memory_part(all->handshakes, of),
                         .tickets = memory_part(all->tickets, of),
                         .reservations = memory_part(all->reservations, of),
                         .of = of};
}

void memory_init(struct memory *m, const struct serve_options *o)
{
    m->all = (struct part){.bytes = o->max_buffered,
                           .delayed = o->max_delayed,
                           .connections = o->max_connections,
                           .handshakes = TLS_HANDSHAKES,
                           .tickets = o->max_tickets,
                           .reservations = ACCOUNTS_MOST};
    m->connection = memory_parts(&m->all, o, o->connection_part ? o->connection_part : 16);
    m->peer = memory_parts(&m->all, o, o->peer_part ? o->peer_part : 4);
    m->local = memory_parts(&m->all, o, o->peer_part ? o->peer_part : 1);
    m->tenant = memory_parts(&m->all, o, o->token_part ? o->token_part : 4);
    if (m->connection.delayed > DELAYED_IN_CONN)
        m->connection.delayed = DELAYED_IN_CONN;
}

static const struct part *memory_peer_part(const struct server *s, const struct peer *peer)
{
    return peer->tenant ? &s->memory.tenant : peer->local ? &s->memory.local : &s->memory.peer;
}

struct account_counts memory_accounts_part(const struct conn *c, const struct peer *peer,
                                           uint64_t room)
{
    const struct server *s = c->worker->server;
    const struct part *part = peer ? memory_peer_part(s, peer) : &s->memory.connection;

    return (struct account_counts){part->reservations, memory_part(room, part->of)};
}

/* ---- Counting -------------------------------------------------------------------------------- */

static void memory_count_up(_Atomic uint64_t *n, uint64_t more)
{
    atomic_fetch_add_explicit(n, more, memory_order_relaxed);
}

static void memory_count_down(_Atomic uint64_t *n, uint64_t less)
{
    atomic_fetch_sub_explicit(n, less, memory_order_relaxed);
}

static uint64_t memory_count(const _Atomic uint64_t *n)
{
    return atomic_load_explicit((_Atomic uint64_t *)n, memory_order_relaxed);
}

void memory_grow(struct memory *m, enum memory_kind kind, size_t bytes)
{
    memory_count_up(&m->of[kind], bytes);
}

void memory_shrink(struct memory *m, enum memory_kind kind, size_t bytes)
{
    memory_count_down(&m->of[kind], bytes);
}

static void memory_charge(struct conn *c, size_t bytes)
{
    c->kept += bytes;
    memory_count_up(&c->from->kept, bytes);
    if (c->tenant)
        memory_count_up(&c->tenant->kept, bytes);
    memory_count_up(&c->worker->server->memory.kept, bytes);
}

static void memory_uncharge(struct conn *c, size_t bytes)
{
    c->kept -= bytes;
    memory_count_down(&c->from->kept, bytes);
    if (c->tenant)
        memory_count_down(&c->tenant->kept, bytes);
    memory_count_down(&c->worker->server->memory.kept, bytes);
}

void memory_add(struct conn *c, enum memory_kind kind, size_t bytes)
{
    memory_grow(&c->worker->server->memory, kind, bytes);
    memory_charge(c, bytes);
}

void memory_remove(struct conn *c, enum memory_kind kind, size_t bytes)
{
    memory_shrink(&c->worker->server->memory, kind, bytes);
    memory_uncharge(c, bytes);
}

size_t memory_of_limit(const struct limit *l)
{
    const struct limit_entry *h = (const struct limit_entry *)l;

    if (!h->anonymous)
        return 0;
    return limit_entry_bytes(h) + weir__anonymous_bytes(h->limit.parsed->n) + 3 * MEMORY_PIECE;
}

void memory_add_limit(struct conn *c, const struct limit *l)
{
    memory_charge(c, memory_of_limit(l));
}

void memory_remove_limit(struct conn *c, const struct limit *l)
{
    memory_uncharge(c, memory_of_limit(l));
}

/* ---- Room ------------------------------------------------------------------------------------ */

/* A quarter of every part is reserved for requests and replies: what clients want kept for longer
 * is refused before any connection has to be closed. */
static bool leaves_room(uint64_t kept, size_t more, uint64_t part)
{
    return kept + more <= part - part / 4;
}

static bool fits_peer(const struct server *s, const struct peer *peer, size_t more)
{
    return leaves_room(memory_count(&peer->kept), more, memory_peer_part(s, peer)->bytes);
}

bool memory_fits(const struct conn *c, size_t more)
{
    const struct server *s = c->worker->server;

    return leaves_room(c->kept, more, s->memory.connection.bytes) && fits_peer(s, c->from, more) &&
           (!c->tenant || fits_peer(s, c->tenant, more)) &&
           leaves_room(memory_count(&s->memory.kept), more, s->memory.all.bytes);
}

static bool is_peer_over(const struct server *s, const struct peer *peer)
{
    return memory_count(&peer->kept) > memory_peer_part(s, peer)->bytes;
}

bool memory_is_over(const struct conn *c)
{
    const struct server *s = c->worker->server;

    return c->kept > MEMORY_LITTLE &&
           (c->kept > s->memory.connection.bytes || is_peer_over(s, c->from) ||
            (c->tenant && is_peer_over(s, c->tenant)) ||
            memory_count(&s->memory.kept) > s->memory.all.bytes);
}

/* ---- Places ---------------------------------------------------------------------------------- */

static bool memory_take_one(_Atomic uint64_t *n, uint64_t most)
{
    if (atomic_fetch_add(n, 1) < most)
        return true;
    atomic_fetch_sub(n, 1);
    return false;
}

bool memory_admit_delayed(struct conn *c)
{
    struct server *s = c->worker->server;

    if (!memory_take_one(&c->from->delayed, memory_peer_part(s, c->from)->delayed))
        return false;
    if (c->tenant && !memory_take_one(&c->tenant->delayed, s->memory.tenant.delayed)) {
        atomic_fetch_sub(&c->from->delayed, 1);
        return false;
    }
    if (memory_take_one(&s->delayed, s->memory.all.delayed)) {
        c->delayed_counted++;
        return true;
    }
    atomic_fetch_sub(&c->from->delayed, 1);
    if (c->tenant)
        atomic_fetch_sub(&c->tenant->delayed, 1);
    return false;
}

void memory_release_delayed(struct conn *c)
{
    c->delayed_counted--;
    atomic_fetch_sub(&c->from->delayed, 1);
    if (c->tenant)
        atomic_fetch_sub(&c->tenant->delayed, 1);
    atomic_fetch_sub(&c->worker->server->delayed, 1);
}

static void memory_charge_ticket(struct server *s, const struct ticket_holders *h)
{
    memory_grow(&s->memory, MEMORY_TICKETS, h->bytes);
    memory_count_up(&h->from->kept, h->bytes);
    if (h->tenant)
        memory_count_up(&h->tenant->kept, h->bytes);
    memory_count_up(&s->memory.kept, h->bytes);
}

bool memory_admit_ticket(struct conn *c, uint64_t open, size_t bytes, struct ticket_holders *h)
{
    struct server *s = c->worker->server;

    *h = (struct ticket_holders){c->from, c->tenant, bytes};
    if (open >= s->memory.connection.tickets || !memory_fits(c, bytes) ||
        !memory_take_one(&s->tickets, s->memory.all.tickets))
        return false;
    if (!memory_take_one(&h->from->tickets, memory_peer_part(s, h->from)->tickets)) {
        atomic_fetch_sub(&s->tickets, 1);
        return false;
    }
    if (h->tenant && !memory_take_one(&h->tenant->tickets, s->memory.tenant.tickets)) {
        atomic_fetch_sub(&h->from->tickets, 1);
        atomic_fetch_sub(&s->tickets, 1);
        return false;
    }
    peer_retain(s->peers, h->from);
    if (h->tenant)
        peer_retain(s->access->tenants, h->tenant);
    memory_charge_ticket(s, h);
    return true;
}

void memory_release_ticket(struct server *s, const struct ticket_holders *h)
{
    memory_shrink(&s->memory, MEMORY_TICKETS, h->bytes);
    memory_count_down(&s->memory.kept, h->bytes);
    memory_count_down(&h->from->kept, h->bytes);
    atomic_fetch_sub(&h->from->tickets, 1);
    peer_leave(s->peers, h->from);
    if (h->tenant) {
        memory_count_down(&h->tenant->kept, h->bytes);
        atomic_fetch_sub(&h->tenant->tickets, 1);
        peer_leave(s->access->tenants, h->tenant);
    }
    atomic_fetch_sub(&s->tickets, 1);
}

void memory_move(struct conn *c, struct peer *tenant)
{
    struct peer *was = c->tenant;

    if (was) {
        memory_count_down(&was->kept, c->kept);
        atomic_fetch_sub(&was->delayed, c->delayed_counted);
        atomic_fetch_sub(&was->connections, 1);
        peer_leave(c->worker->server->access->tenants, was);
    }
    if (tenant) {
        memory_count_up(&tenant->kept, c->kept);
        atomic_fetch_add(&tenant->delayed, c->delayed_counted);
    }
    c->tenant = tenant;
}

bool memory_admits(struct server *s, struct peer *peer)
{
    return memory_take_one(&peer->connections, memory_peer_part(s, peer)->connections);
}

bool memory_admit_handshake(struct conn *c)
{
    struct server *s = c->worker->server;

    if (!memory_take_one(&c->from->handshakes, memory_peer_part(s, c->from)->handshakes))
        return false;
    if (memory_take_one(&s->handshakes, s->memory.all.handshakes))
        return true;
    atomic_fetch_sub(&c->from->handshakes, 1);
    return false;
}

void memory_release_handshake(struct conn *c)
{
    atomic_fetch_sub(&c->from->handshakes, 1);
    atomic_fetch_sub(&c->worker->server->handshakes, 1);
}

/* ---- The process ----------------------------------------------------------------------------- */

#define TRIM_BYTES ((uint64_t)4 << 20) /* freeing less is not worth a walk over the heap */

void memory_tidy(struct server *s)
{
    struct memory *m = &s->memory;
    const uint64_t kept = memory_count(&m->kept);

    if (kept > m->most)
        m->most = kept;
    if (m->most < TRIM_BYTES || kept > m->most / 2)
        return;
    m->most = kept;
    allocator_trim();
}

uint64_t memory_rss(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long long size, resident = 0;

    if (!f)
        return 0;
    if (fscanf(f, "%llu %llu", &size, &resident) != 2)
        resident = 0;
    (void)fclose(f);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- Reporting ------------------------------------------------------------------------------- */

/* Within names_enter. */
static uint64_t memory_of_names(const struct server *s, const struct weir_stats *stats)
{
    return names_bytes(s->names) + override_marks_bytes(s->marks) +
           stats->policies * (uint64_t)weir__anonymous_bytes(1);
}

static uint64_t memory_of_kinds(const struct memory *m)
{
    uint64_t sum = 0;

    for (int i = 0; i < MEMORY_KIND_COUNT; i++)
        sum += memory_count(&m->of[i]);
    return sum;
}

void memory_is_ready(struct server *s)
{
    const struct weir_stats stats = server_stats(s);
    const uint64_t rss = memory_rss();
    uint64_t counted = stats.bytes + memory_of_kinds(&s->memory);

    names_enter(s->names);
    counted += memory_of_names(s, &stats);
    names_leave(s->names);
    s->memory.base = rss > counted ? rss - counted : 0;
}

uint64_t memory_bound(struct server *s)
{
    return s->options.max_memory ? s->options.max_memory
                                 : server_stats(s).max_bytes + s->memory.all.bytes;
}

size_t memory_print(struct server *s, char text[MEMORY_TEXT])
{
    static const char *const WORDS[] = {
#define X(name, word) #word,
        MEMORY_KINDS(X)
#undef X
    };
    const struct weir_stats stats = server_stats(s);
    const uint64_t names = memory_of_names(s, &stats), kinds = memory_of_kinds(&s->memory);
    size_t len = (size_t)snprintf(text, MEMORY_TEXT,
                                  "used_memory:%" PRIu64 "\r\nused_memory_rss:%" PRIu64
                                  "\r\nmaxmemory:%" PRIu64 "\r\nmemory_base:%" PRIu64
                                  "\r\nmemory_store:%" PRIu64 "\r\nmemory_names:%" PRIu64 "\r\n",
                                  stats.bytes + names + kinds + s->memory.base, memory_rss(),
                                  memory_bound(s), s->memory.base, stats.bytes, names);

    for (int i = 0; i < MEMORY_KIND_COUNT; i++)
        len += (size_t)snprintf(text + len, MEMORY_TEXT - len, "memory_%s:%" PRIu64 "\r\n",
                                WORDS[i], memory_count(&s->memory.of[i]));
    return len;
}

/* ---- One budget ------------------------------------------------------------------------------ */

#define DAEMON_MOST ((uint64_t)256 << 20)

uint64_t daemon_memory_of(uint64_t max_memory)
{
    return max_memory / 4 < DAEMON_MOST ? max_memory / 4 : DAEMON_MOST;
}

uint64_t store_memory_of(uint64_t max_memory)
{
    return max_memory - daemon_memory_of(max_memory);
}

/* The daemon itself also takes memory, and each worker its buffers and the limits it remembers. */
#define ITSELF_BYTES ((uint64_t)8 << 20)
#define WORKER_BYTES ((uint64_t)12 << 20)

void memory_divide(struct serve_options *o)
{
    const uint64_t all = daemon_memory_of(o->max_memory);
    const uint64_t one = MEMORY_LITTLE + sizeof(struct conn) +
                         (o->tls_ca     ? TLS_KNOWN_BYTES
                          : o->tls_cert ? TLS_OPEN_BYTES
                                        : 0);
    const uint64_t fixed = ITSELF_BYTES + (uint64_t)o->threads * WORKER_BYTES;
    uint64_t others;

    if (o->max_memory == 0)
        return;
    if (o->max_connections == 0 && all / 4 / one < CONNECTIONS_USUAL)
        o->max_connections = all / 4 / one;
    others = fixed + (o->max_connections ? o->max_connections : CONNECTIONS_USUAL) * one;
    if (o->max_buffered == 0)
        o->max_buffered = others + all / 4 <= all ? all - others : all / 4;
}
