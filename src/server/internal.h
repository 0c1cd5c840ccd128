/* The internals of the server: what its own files share and no front sees. */
#ifndef WEIR_SERVER_INTERNAL_H
#define WEIR_SERVER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "engine/embed.h"
#include "server/access/access.h"
#include "server/account/account.h"
#include "server/clients.h"
#include "server/conn.h"
#include "server/due_heap.h"
#include "server/log.h"
#include "server/memory.h"
#include "server/metrics/latency.h"
#include "server/metrics/tallies.h"
#include "server/stores.h"
#include "server/tls/tls.h"

#define READ_BYTES (64 * 1024) /* most bytes of one read */
/* bytes of replies after which they are sent before more are written */
#define SCRATCH_BYTES    (64 * 1024)
#define SCRATCH_USUAL    (2 * SCRATCH_BYTES)
#define BATCH_TAKES      BATCH_MAX
#define REMOTE_MOST      1024 /* most requests to remote stores that one worker has under way */
#define REMOTE_KEY_BYTES (4 << 20) /* most bytes of their keys */
/* this many requests go out in one write; the rest goes before the loop sleeps */
#define REMOTE_TOGETHER 16
#define TICKET_NAME     40   /* bytes of a ticket's name in a remote store, with its NUL */
#define INBOX_MAX       1024 /* connections handed to a worker that it has not opened yet */
#define SERVE_ADDRESS   128

/* ---- Replies on their way (out.c) ------------------------------------------------------------ */

struct delayed_reply;
struct awaited_reply;
struct ticket;
struct ticket_table;

struct segment {
    struct segment *next;
    struct delayed_reply *delayed; /* the delayed reply that will fill this segment, ... */
    struct awaited_reply *awaited; /* ... or the awaited one; nothing from here on may leave */
    size_t sent, len, cap;
    char bytes[];
};

/* Tries to send what may leave: false if the connection is broken. */
bool out_flush(struct conn *c);
/* Adds the place of a reply that comes later. */
struct segment *out_add_delayed(struct conn *c, struct delayed_reply *h);
struct segment *out_add_awaited(struct conn *c, struct awaited_reply *a);
/* Drops the delayed replies and everything behind them: a client must never read a later reply in
 * the place of an earlier one. */
void out_drop_delayed(struct conn *c);
/* Directs writes to the segment until out_aim(c, NULL). */
void out_aim(struct conn *c, struct segment *s);
/* No reply is being written: the worker's buffer shrinks to its usual size. */
void out_tidy(struct worker *w);
/* True if everything that may leave has left. */
bool out_is_empty(const struct conn *c);
/* True if there is nothing more to send, now or later. */
bool out_is_done(const struct conn *c);
void out_free(struct conn *c);

/* ---- Connections (conn.c) -------------------------------------------------------------------- */

enum conn_protocol { PROTOCOL_UNKNOWN, PROTOCOL_RESP, PROTOCOL_HTTP };

struct conn {
    uv_poll_t poll; /* first: the handle is the connection */
    struct worker *worker;
    int fd;
    int events; /* the events it is polled for */
    uint64_t id;
    enum conn_protocol protocol;
    bool finishing; /* nothing more is read */
    bool closing;   /* uv_close is on its way */
    bool eof;       /* the client will send no more */
    bool lingers;   /* our side is shut down, and we wait for the client to read it */

    struct conn *older, *newer; /* neighbours by the time they were last active */
    int64_t active_ms;

    char *in; /* bytes that were read and are not a whole request yet */
    size_t in_len, in_cap;
    struct segment *first, *last, *aim;
    size_t queued;       /* bytes in segments */
    struct peer *from;   /* the peer whose part it uses */
    struct peer *tenant; /* the name of its token, whose part it uses too; NULL: none */
    size_t kept;         /* bytes, of all kinds (memory.h) */
    size_t buffered;     /* those of requests and replies ... */
    /* ... and how many there were when they were last found to be within its part */
    size_t allowed;
    struct delayed_reply *delayed;
    struct reservation *named;
    struct asked_reservation *asked; /* those that a remote store has not answered yet */
    unsigned delayed_n, names;       /* names: of both */
    struct account_holder *holder;   /* what counts its open reservations; NULL: it had none */
    unsigned delayed_counted;        /* by memory_admit_delayed */
    /* Tickets that it has entered, and how many; under the lock of the worker's tickets. */
    struct ticket *tickets;
    _Atomic unsigned tickets_n;
    _Atomic unsigned tied;         /* those that end with it (CONN) */
    bool postponed;                /* the next command waits for an answer */
    bool stalled;                  /* it is not read until remote_stalled is over */
    struct awaited_reply *awaited; /* replies that come later, other than delayed ones */
    unsigned awaited_n;            /* how many */
    unsigned asking_n;             /* delayed replies with a question under way */
    bool in_steps;                 /* one of them is worked out in steps */
    struct conn *next_push;
    bool to_push;

    struct resp_session resp;
    struct client client;
    struct http_reader *http;
    struct conn_access access;
    struct tls_conn *tls; /* NULL: the connection is plain */
    unsigned char role;   /* enum access_scope: what its listener is for */
    char peer[46];
    unsigned char scope; /* 1 + an enum conn_scope; 0: not determined yet */
};

/* A connection that was accepted. */
struct accepted {
    int fd;
    unsigned char role; /* enum access_scope: what its listener is for */
    bool tls;           /* its listener speaks TLS */
};

/* Takes over the descriptor; closes it if there is no room. */
void conn_open(struct worker *w, struct accepted a);
/* Closes it now; what was reserved for it is given back. */
void conn_close(struct conn *c);
/* Sends what may leave and continues with input that was left unserved. Call it after anything that
 * wrote replies. */
void conn_push(struct conn *c);
/* True if it may be closed once --idle has passed: the daemon waits for the client, not the client
 * for the daemon, and no ticket is tied to it. */
bool conn_is_idle(const struct conn *c);
/* Closes it if it has lingered long enough. */
void conn_tick(struct conn *c, int64_t now_ms);
/* Pushes it before the loop sleeps; for replies that were written while others were busy. */
void conn_push_later(struct conn *c);
/* Pushes it later, after a remote store has answered a take that may be cancelled: a command that
 * waited for it is run again. */
void conn_answered(struct conn *c);
/* During a drain: closes it once nothing is delayed or queued. */
void conn_drain(struct conn *c);

/* ---- Replies that come later (deferred.c) ---------------------------------------------------- */

/* The place of such a reply. */
struct awaited_reply {
    struct conn *conn;       /* NULL: it has closed */
    struct segment *segment; /* NULL: it has none yet */
    struct awaited_reply *next, *prev;
    void (*left)(struct awaited_reply *p); /* called when the connection closes; or NULL */
};

/* Keeps a place among the connection's replies. */
void awaited_add(struct conn *c, struct awaited_reply *p);
/* Directs writes into the place until out_aim(c, NULL). The reply is no longer awaited. */
void awaited_fill(struct awaited_reply *p);
/* The connection stops waiting for that reply; for all of them. */
void awaited_abandon(struct awaited_reply *p);
void awaited_abandon_all(struct conn *c);

void deferred_run(uv_idle_t *h);

/* ---- Workers (worker.c) ---------------------------------------------------------------------- */

struct batch {
    size_t n;
    const struct store *store; /* the store of every take in the batch */
    struct conn *conn;
    struct limit_op op[BATCH_TAKES];
    struct weir_request request[BATCH_TAKES];
    struct weir_verdict verdict[BATCH_TAKES];
};

struct worker {
    struct server *server;
    int index;
    pthread_t thread;
    uv_loop_t loop;
    uv_async_t wake;
    uv_prepare_t before_sleep;
    uv_idle_t busy; /* runs while there are steps to do */
    uv_timer_t tick, due, lapse;
    bool draining;

    /* the time of this wake-up by each store's clock, ... */
    struct weir__now now[SERVE_STORES_MAX];
    unsigned read_in[SERVE_STORES_MAX]; /* ... valid if it was read in this one */
    unsigned wake_up;                   /* wake-ups so far, counted from 1 */

    pthread_mutex_t inbox_lock;
    struct accepted inbox[INBOX_MAX];
    int inbox_n;

    struct conn *oldest, *newest;
    struct access_files *files; /* who may ask */
    int64_t unknown_ms;         /* when connections without a token were last looked for */
    unsigned lingering;
    struct tls_worker *tls; /* NULL: it had no connection of TLS yet */
    char *in;               /* READ_BYTES, for the connection that is being read */
    char *scratch;
    size_t scratch_len, scratch_cap;
    struct batch batch;
    struct literals *literals;
    struct weir_diag why; /* the last error about a limit */

    struct due_heap heap;         /* delayed replies by due time */
    struct ticket_table *tickets; /* that its connections have entered */
    pthread_mutex_t ready_lock;   /* taken under the lock of a wait list */
    struct delayed_reply *ready;  /* waiters that were woken; under ready_lock */
    struct conn *to_push;         /* connections with new replies, to be pushed */
    struct deferred *due_deferred;
    struct remote_stores *remote;
    _Atomic unsigned
        remote_pending;  /* requests to remote stores under way; only the worker writes it */
    size_t remote_bytes; /* bytes of their keys */
    bool remote_stalled; /* a connection is not read because REMOTE_MOST are under way */

    struct counters counters;
    struct latency latency;
    struct tally_sheet *tally; /* decisions by limit */
    char pad[64];
};

int worker_open(struct worker *w, struct server *s, int index); /* 0 or an errno */
void worker_run(struct worker *w);
void worker_close(struct worker *w);
void worker_assign(struct worker *w, struct accepted a);
/* The time of the store, read once in a wake-up: all of its takes see the same (batch.c). */
struct weir__now worker_now(struct worker *w, const struct store *s);
/* From here on the clock is read anew. */
static inline void worker_now_expire(struct worker *w)
{
    w->wake_up++;
}

/* Pushes the connections that have new replies. Outside of names_enter. */
void worker_push_all(struct worker *w);

/* Whether the connection may have what the operation makes (OP_RESERVE). */
bool batch_admits(struct conn *c, const struct limit_op *op);
/* Counts a reservation that was made in a store of this machine, for c, or settled in any. */
void batch_note_account(struct worker *w, struct conn *c, const struct limit_op *op, int64_t ttl_ns,
                        int error, const struct weir_verdict *v);
/* Counts the verdict of several limits: a grant for each, a refusal for the one that refused. */
void batch_tally_all(struct worker *w, const struct limit *const *l, size_t n, int error,
                     const struct weir_verdict *v);
/* Counts a verdict or an error of that limit (batch.c). */
void batch_tally(struct worker *w, const struct limit_op *op, int error,
                 const struct weir_verdict *v);
/* Of several that were taken together: which one the reply is about; -1: none. */
int batch_named(const struct limit_op *op, size_t n, const struct weir_verdict *v);

/* ---- Remote stores (remote/) ----------------------------------------------------------------- */

int remote_open(struct worker *w); /* 0 or an errno */
/* After all connections are closed. Requests under way get their replies; the loop may still
 * run. */
void remote_close(struct worker *w);
void remote_free(struct worker *w);

/* Runs the operation in its remote store. The reply comes now or later, in its place. */
void remote_run(struct conn *c, const struct limit_op *op);
/* The same for several, all or nothing; the first has the reply function. */
void remote_take_all(struct conn *c, const struct limit_op *op, size_t n);
/* Takes those of the operations that are in remote stores, like batch_take_many. */
struct remote_group *remote_take_many(struct worker *w, const struct limit_op *op, size_t n,
                                      struct weir_verdict *v, int *error, remote_group_done *done,
                                      void *arg);
/* Cancels a reservation; the operation's `back` is then what was returned. */
void remote_cancel(struct conn *c, const struct limit_op *op, const struct weir_reservation *taken);
/* Cancels a reservation whose client has left, or withdraws it (weir__reservation_withdraw). */
void remote_give_back(struct worker *w, const struct limit *limit,
                      const struct weir_reservation *taken, bool withdraw);

/* A question that a waiter asks its remote store. */
struct remote_question {
    void (*answered)(struct remote_question *q);
    bool under_way;
    struct remote_request *request; /* while it is under way */
    int error;                      /* or 0 and the verdict */
    struct weir_verdict verdict;
    char ticket[TICKET_NAME]; /* of an entry: its name in the store */
    bool full;                /* of an entry or a peek at one: see weir__receipt */
    struct weir__wait_options queue;
};

/* Asks to take, or to enter, and records the grant in one of the two; without both it asks for a
 * peek. True: the answer is there. False: `answered` is called when it comes; reservation, ticket
 * and question must last until then. */
bool remote_ask(struct worker *w, const struct limit_op *op, struct weir_reservation *reservation,
                struct weir_ticket *entered, struct remote_question *q);
/* Takes back a question that waits for room. False: it waits no more, and the answer comes. */
bool remote_unask(struct remote_question *q);

static inline bool remote_is_full(const struct worker *w)
{
    return atomic_load_explicit(&w->remote_pending, memory_order_relaxed) >= REMOTE_MOST ||
           w->remote_bytes >= REMOTE_KEY_BYTES;
}
/* Sends the requests that were begun, and arranges that the loop wakes up for their replies. */
void remote_before_sleep(struct worker *w);

/* ---- Waiting (delayed/) ---------------------------------------------------------------------- */

/* Takes for an operation that may wait or has a name: reserved, answered or delayed. */
void delayed_take(struct conn *c, const struct limit_op *op);
/* Enters for an operation whose ticket has room, and which waits or is in a remote store. */
void delayed_enter(struct conn *c, struct limit_op *op);
/* Serves the delayed replies of this worker that are due or were woken. */
void delayed_run(struct worker *w);
/* Outside of names_enter. The connection closes: gives back what it waits for and what it named. */
void delayed_abandon(struct conn *c);
/* Before the loop sleeps. */
void delayed_set_timer(struct worker *w);

/* ---- Keys that crossed warn= (limits/warned.c) ----------------------------------------------- */

struct warned;
/* NULL: out of memory. */
struct warned *warned_open(const uint64_t secret[2]);
void warned_close(struct warned *w);
/* Counts a verdict that says so, and logs its key, if it is the first of its period. */
void warned_note(struct worker *w, const struct limit_op *op);

/* ---- Tickets (tickets/) ---------------------------------------------------------------------- */

struct ticket_table *tickets_open(struct server *s); /* NULL: no memory */
/* After all workers have ended: what has no lease of its own in the store is exited. */
void tickets_close(struct worker *w);
/* Ends the tickets of this worker whose lease is over. Outside of names_enter. */
void tickets_run(struct worker *w);
/* The connection ends: so do the tickets that are tied to it. Outside of names_enter. */
void tickets_leave(struct conn *c);
/* Before the loop sleeps. */
void tickets_set_timer(struct worker *w);
/* An entry that waited is decided: its ticket is open, or dropped. `entered` is what was
 * entered, and `name` its name in a remote store (or NULL). Returns the error to reply with;
 * op->ticket is NULL if there is none. */
int ticket_settle(struct worker *w, struct limit_op *op, int error, struct weir_ticket *entered,
                  const char *name, const struct weir_verdict *v);
/* No more replies can be delayed: enters now or not at all. */
void ticket_enter_full(struct conn *c, struct limit_op *op);
/* An entry whose client has left before it was decided. */
void ticket_drop(struct worker *w, struct ticket *t);
/* The exit of the ticket has an answer of its remote store. */
void ticket_exit_answered(struct worker *w, struct ticket *t, const struct weir_ticket *left,
                          int error);
/* Exits what a client that has left had entered. */
void remote_leave(struct worker *w, const struct limit *limit, const struct weir_ticket *entered);
/* Exits the ticket in its remote store; the reply function gets the result. Without a connection
 * no client waits for it. */
void remote_exit(struct worker *w, struct conn *c, const struct limit_op *op,
                 const struct weir_ticket *entered, enum weir_outcome how);
/* Exits a ticket of any daemon, whose name in the remote store is the operation's: WEIR_EGONE if
 * there is none (any more). */
void remote_release(struct conn *c, const struct limit_op *op);
/* Whether the store ends an entry to this term by itself. */
bool ticket_term_expires(const struct weir_term *t);

/* ---- Names (limits/) ------------------------------------------------------------------------- */

/* A limit that can be retained. Its `parsed` is its own, and has room for its terms only. */
struct limit_entry {
    struct limit limit; /* first: fronts see this */
    struct store *store;
    _Atomic int holders;
    _Atomic uint64_t shadow_denied; /* grants that a shadow would have refused */
    _Atomic bool gone;              /* its policy was forgotten */
    bool anonymous;                 /* its policy is anonymous */
    struct memory *memory;          /* where it is counted, if it came with a request */
    uint64_t keys_bytes;            /* of its overrides and lists, as they were counted last */
    struct limit_entry *next_retired;
    struct {
        uint64_t evicted, refusals; /* as they were at that time */
        int64_t at_ns;              /* -1: never */
    } full_log;                     /* the first worker's: when the log last reported it (room.c) */
    struct refusals {
        _Atomic uint32_t last; /* all workers': the latest one (limit_note_refusal) */
        uint64_t seen;         /* so far */
        uint64_t first;        /* before this time */
        int64_t at_ns;         /* when there was last a new one */
        bool logged;           /* the log says that they began */
    } refused, shadowed;       /* the first worker's, but for `last` (refusals.c) */
    struct tallies *tallies;   /* where its slot came from; NULL: it shares one */
    unsigned tally;            /* its slot */
    char name[];
};

/* An entry without a policy; NULL: out of memory. */
struct limit_entry *limit_entry_make(struct weir__slice name, const struct weir_limit *parsed,
                                     struct store *store);
/* The entry has another limit now; false: out of memory, and it has the one before. */
bool limit_entry_change(struct limit_entry *h, const struct weir_limit *parsed);
/* The bytes that it takes with its overrides and lists, without its policy. */
size_t limit_entry_bytes(const struct limit_entry *h);
void limit_entry_release(struct limit_entry *l);
static inline unsigned tally_slot_of(const struct limit *l)
{
    return ((const struct limit_entry *)l)->tally;
}

static inline struct store *store_of(const struct limit *l)
{
    return ((const struct limit_entry *)l)->store;
}

/* For at most that many names which clients or files set. */
struct names *names_open(struct stores *s, struct log *log, struct tallies *tallies, size_t most);
void names_close(struct names *n);
/* What all names take, without their policies. */
uint64_t names_bytes(const struct names *n);
size_t names_count(const struct names *n);
/* Frees entries that were replaced. Outside of names_enter. */
void names_tidy(struct names *n);
/* Around all work of a worker. */
void names_enter(struct names *n);
void names_leave(struct names *n);
/* Sets a limit in that store. 0, or an error and *why filled. */
int names_set(struct names *n, struct weir__slice name, const char *text, struct store *store,
              struct weir_diag *why);
/* Its limit as text, and its store, if there is one of that name. */
bool names_get(struct names *n, struct weir__slice name, char text[WEIR_LIMIT_TEXT_MAX],
               struct store **store);
/* False: it could not be deleted, because a process that stands still holds the store's lock. */
bool names_delete(struct names *n, struct weir__slice name);
struct literals *literals_open(struct store *s, struct memory *m);
/* Releases the entries that were pushed out. Between requests, with an empty batch. */
void literals_tidy(struct literals *l);
/* True if that should not wait for the end of the wake-up. */
bool literals_are_many(const struct literals *l);
void literals_close(struct literals *l);
/* A key of the literal may take at most `most` bytes of state. */
const struct limit *literals_find(struct literals *l, struct weir__slice text, bool looks,
                                  size_t most, struct weir_diag *why);
const struct limit *literals_cached_throttle(struct literals *l, struct weir__slice said,
                                             int64_t more);
void literals_cache_throttle(struct literals *l, struct weir__slice said, int64_t more,
                             const struct limit *limit);
const struct limit *literals_throttle(struct literals *l, int64_t burst, int64_t count,
                                      int64_t period_s, struct weir_diag *why);

/* ---- Room (room.c) --------------------------------------------------------------------------- */

/* Logs how many keys of the limit there is room for; of all limits. Within names_enter. */
void room_log(struct names *n, struct weir__slice name);
void room_log_all(struct names *n);
/* Logs which limits have had more live keys than places. The first worker calls it now and then,
 * outside of names_enter. */
void room_check(struct server *s);

/* ---- The server (server.c) ------------------------------------------------------------------- */

struct manual_clock {
    _Atomic int64_t now_ns;
};

#define SERVER_SIGNALS 5 /* that the daemon hears */

struct server {
    struct serve_options options;
    struct stores stores;
    struct weir *engine; /* of the first store, whose clock is the daemon's */
    struct manual_clock manual;
    struct log *log;
    struct names *names;
    const struct rules *rules; /* read and replaced like names; NULL: none */
    struct worker *workers;
    int threads;
    _Atomic uint64_t open_connections, delayed, handshakes, next_id;
    _Atomic int64_t tls_logged_ms; /* when a failed handshake was last logged; 0: never */
    _Atomic uint64_t tickets;      /* admitted ones: open, or of a caller that waits ... */
    _Atomic uint64_t open_tickets; /* ... and the open ones */
    struct memory memory;
    struct peers *peers;
    struct warned *warned;
    struct account_book *accounts;
    struct access *access;
    struct clients clients;
    _Atomic bool stopping, stopping_now;
    uv_timer_t patience; /* how long a drain may take */
    uv_signal_t signal[SERVER_SIGNALS];
    int64_t started_ms;
    pthread_mutex_t stats_lock;
    struct weir_stats stats;
    uint64_t stats_until_ns; /* by uv_hrtime */
    struct {
        int64_t since_ns;
        unsigned lines;
        char after[WEIR_NAME_MAX]; /* the last limit that was checked */
    } full_log; /* the first worker's: lines about full limits in this minute (room.c) */
    struct {
        int64_t since_ns;
        unsigned lines;
        char after[WEIR_NAME_MAX];
    } refusals; /* the same for lines about refusals (refusals.c) */
    struct tallies *tallies;
    struct listeners *listeners;
    const struct serve_options *file; /* what the configuration says; replaced like names */
    struct override_marks *marks;     /* the same about overrides, which go from `file` */
    struct keep *keep;                /* NULL: live changes end with the daemon */
    struct reload *reload;            /* NULL: there is no configuration file */
};

/* Replaces the rules, while no worker is inside of names_enter (check.c). */
void server_set_rules(struct server *s, const struct rules *rules);

/* A crash leaves no core, and other processes of the user cannot read the memory, which has the
 * private key and the passwords of stores (cores_prctl.c, cores_other.c). */
void cores_forbid(void);

/* These options are what the configuration says from now on, and name the proxies that are
 * trusted. In the same way. */
void server_set_file(struct server *s, const struct serve_options *next);
/* Frees the texts of the overrides that the file in force has: there are marks of them. */
void server_forget_overrides(struct server *s);

/* Wakes all workers: a clock was set, or it is time to stop. */
void server_wake_all(struct server *s);

/* ---- Listening (listen.c) -------------------------------------------------------------------- */

struct listeners;
/* 0, or an exit status after an error on stderr. */
int listeners_open(struct listeners **l, const struct serve_options *o);
/* Accepts on the worker's loop, for all workers. */
int listeners_start(struct listeners *l, struct server *s);
void listeners_stop(struct listeners *l);
void listeners_close(struct listeners *l);
void listeners_announce(const struct listeners *l);
const char *listeners_address(const struct listeners *l);
int listeners_port(const struct listeners *l);

#endif
