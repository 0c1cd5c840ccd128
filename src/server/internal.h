/* The insides of the server: what its own files share, and no front sees. */
#ifndef WEIR_SERVER_INTERNAL_H
#define WEIR_SERVER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "engine/embed.h"
#include "server/conn.h"
#include "server/log.h"
#include "server/memory.h"
#include "server/stores.h"

#define READ_BYTES       (64 * 1024) /* are read at once */
#define SCRATCH_BYTES    (64 * 1024) /* of answers leave before more are written */
#define SCRATCH_USUAL    (2 * SCRATCH_BYTES)
#define BATCH_TAKES      BATCH_MAX
#define DELAYED_IN_CONN  1024 /* delayed replies, or named reservations, of one connection at most */
#define REMOTE_MOST      1024      /* takes of far stores that are under way in a worker */
#define REMOTE_KEY_BYTES (4 << 20) /* of their keys */
#define REMOTE_TOGETHER  16 /* of them go out in one write; what is left, before the loop sleeps */
#define INBOX_MAX        1024 /* connections handed to a worker that it has not looked at */
#define SERVE_ADDRESS    128

/* ---- Answers on their way (out.c) -------------------------------------------------------------- */

struct delayed_reply;
struct awaited_reply;

struct segment {
    struct segment *next;
    struct delayed_reply *delayed; /* whose answer this will be, ... */
    struct awaited_reply *awaited; /* ... or that of a far store; nothing from here on may leave */
    size_t sent, len, cap;
    char bytes[];
};

/* Tries to send what may leave: false if the connection is broken. */
bool out_flush(struct conn *c);
/* The place of an answer that comes later. */
struct segment *out_add_delayed(struct conn *c, struct delayed_reply *h);
struct segment *out_add_awaited(struct conn *c, struct awaited_reply *a);
/* Forgets the held answers and all behind them: the client is not told of one what belongs to another. */
void out_drop_delayed(struct conn *c);
/* Writes go to the segment until out_aim(c, NULL). */
void out_aim(struct conn *c, struct segment *s);
/* No answer is being written: the worker's buffer goes back to its usual size. */
void out_tidy(struct worker *w);
/* What can leave has left. */
bool out_is_empty(const struct conn *c);
void out_free(struct conn *c);

/* ---- Connections (conn.c) ---------------------------------------------------------------------- */

enum conn_protocol { PROTOCOL_UNKNOWN, PROTOCOL_RESP, PROTOCOL_HTTP };

struct conn {
    uv_poll_t poll; /* first: the handle is the connection */
    struct worker *worker;
    int fd;
    int events; /* that are polled for */
    uint64_t id;
    enum conn_protocol protocol;
    bool finishing; /* nothing more is read */
    bool closing;   /* uv_close is on its way */
    bool eof;       /* the client has said all it will say */
    bool lingers;   /* we have said all, and wait for the client to hear it */

    struct conn *older, *newer; /* by when it was active last */
    int64_t active_ms;

    char *in; /* what was read and not yet understood */
    size_t in_len, in_cap;
    struct segment *first, *last, *aim;
    size_t queued;     /* bytes in segments */
    struct peer *from; /* whose part it has */
    size_t kept;       /* bytes, of all kinds (memory.h) */
    size_t buffered;   /* of them requests and replies ... */
    size_t allowed; /* ... and how many there were when that was last found to be within its part */
    struct delayed_reply *delayed;
    struct reservation *named;
    unsigned delayed_n, names;
    struct awaited_reply *awaited; /* answers that come later, other than delayed ones */
    unsigned awaited_n;            /* how many */
    bool in_steps;                 /* one of them is worked out in steps */
    struct conn *next_push;
    bool to_push;

    struct resp_session resp;
    struct http_reader *http;
    char peer[46];
    unsigned char scope; /* 1 + an enum conn_scope; 0: not looked at yet */
};

/* Takes the descriptor over; closes it if there is no room. */
void conn_open(struct worker *w, int fd);
/* Ends it now; what was held is given back. */
void conn_close(struct conn *c);
/* Lets out what may leave, and goes on with what was left unread. After anything that wrote answers. */
void conn_push(struct conn *c);
/* Whether it may be closed if it was not served for --idle: it waits for its client, and not the other way round. */
bool conn_is_idle(const struct conn *c);
/* Closes it if it has lingered for long enough. */
void conn_tick(struct conn *c, int64_t now_ms);
/* The same before the loop sleeps; for answers that were written while others were busy. */
void conn_push_later(struct conn *c);
/* At a drain: closes it once nothing is held or queued. */
void conn_drain(struct conn *c);

/* ---- Answers that come later (deferred.c) ------------------------------------------------------ */

/* The place of such an answer. */
struct awaited_reply {
    struct conn *conn;       /* NULL: it has left */
    struct segment *segment; /* NULL: it has none yet */
    struct awaited_reply *next, *prev;
    void (*left)(struct awaited_reply *p); /* called when it leaves; or NULL */
};

/* Keeps a place among the connection's answers. */
void awaited_add(struct conn *c, struct awaited_reply *p);
/* What is written next goes there, until out_aim(c, NULL). It is no longer waited for. */
void awaited_fill(struct awaited_reply *p);
/* The connection does not wait for that answer any more; for any. */
void awaited_abandon(struct awaited_reply *p);
void awaited_abandon_all(struct conn *c);

void deferred_run(uv_idle_t *h);

/* ---- Workers (worker.c) ------------------------------------------------------------------------ */

struct batch {
    size_t n;
    const struct store *store; /* of all of them */
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
    uv_idle_t busy; /* while there are steps to do */
    uv_timer_t tick, due;
    bool draining;

    struct weir__now now[SERVE_STORES_MAX]; /* of this wake-up, by each store's clock ... */
    unsigned read_in[SERVE_STORES_MAX];     /* ... if it was read in this one */
    unsigned wake_up;                       /* counted, from 1 */

    pthread_mutex_t inbox_lock;
    int inbox[INBOX_MAX];
    int inbox_n;

    struct conn *oldest, *newest;
    unsigned lingering;
    char *in; /* READ_BYTES, of whoever is being read */
    char *scratch;
    size_t scratch_len, scratch_cap;
    struct batch batch;
    struct literals *literals;
    struct weir_diag why; /* the last complaint about a limit */

    struct delayed_reply **heap; /* by when they are due */
    size_t heap_n, heap_cap;
    struct delayed_reply *ready; /* whose turn in a line has come; under the lines' lock */
    struct conn *to_push;        /* have been answered, and are to be pushed */
    struct deferred *due_deferred;
    struct remote_stores *remote;
    _Atomic unsigned
        remote_pending;  /* takes of far stores that are under way; only the worker writes it */
    size_t remote_bytes; /* of the keys of those that are */
    bool remote_stalled; /* somebody is not read from, for there were REMOTE_MOST of them */

    struct counters counters;
    char pad[64];
};

int worker_open(struct worker *w, struct server *s, int index); /* 0 or an errno */
void worker_run(struct worker *w);
void worker_close(struct worker *w);
void worker_assign(struct worker *w, int fd);
struct weir__now worker_now(struct worker *w, const struct store *s);
/* What follows is later. */
static inline void worker_now_expire(struct worker *w)
{
    w->wake_up++;
}

/* Pushes those that have been answered. Outside of names_enter. */
void worker_push_all(struct worker *w);

/* Counts an answer (batch.c). */
void batch_tally(struct worker *w, int error, const struct weir_verdict *v);

/* ---- Remote stores (server/remote) ------------------------------------------------------------ */

int remote_open(struct worker *w); /* 0 or an errno */
/* All connections are closed. What is under way is told; the loop may still be run. */
void remote_close(struct worker *w);
void remote_free(struct worker *w);

/* Takes from a far store. Answered now or later, in its place. */
void remote_take_one(struct conn *c, const struct limit_op *q);
/* Those of the questions that ask far stores, as batch_take_many. */
struct remote_group *remote_take_many(struct worker *w, const struct limit_op *q, size_t n,
                                      struct weir_verdict *v, int *error,
                                      remote_group_done *when_told, void *arg);
/* Waits until all that this worker takes from that store is answered, so that who asks next sees it. */
void remote_sync(struct worker *w, const struct store *s);
static inline bool remote_is_full(const struct worker *w)
{
    return atomic_load_explicit(&w->remote_pending, memory_order_relaxed) >= REMOTE_MOST ||
           w->remote_bytes >= REMOTE_KEY_BYTES;
}
/* Sends what was begun, and sees to it that the loop wakes up for the answers. */
void remote_before_sleep(struct worker *w);

/* ---- Waiting (delayed.c) ----------------------------------------------------------------------- */

/* A question that holds, or has a name: reserved, answered or held. */
void delayed_take(struct conn *c, const struct limit_op *q);
/* Whatever of this worker's is due or called. */
void delayed_run(struct worker *w);
/* Outside of names_enter. The connection ends: gives back what it waits for and what it named. */
void delayed_abandon(struct conn *c);
/* Before the loop sleeps. */
void delayed_set_timer(struct worker *w);

struct wait_lists;
struct wait_lists *wait_lists_open(void);
void wait_lists_close(struct wait_lists *l);

/* ---- Names (server/limits) ------------------------------------------------------------------- */

/* A limit that may be held. */
struct limit_entry {
    struct limit limit; /* first: fronts see this */
    struct weir_limit parsed;
    struct store *store;
    uint64_t identity; /* whose keys: equal where the keys are the same */
    _Atomic int holders;
    _Atomic bool gone;     /* its policy was forgotten */
    bool anonymous;        /* its policy is */
    struct memory *memory; /* where it is counted, if it came with a request */
    struct limit_entry *next_retired;
    struct {
        uint64_t evicted, refusals; /* as they were then */
        int64_t at_ns;              /* -1: never */
    } full_log;                     /* the first worker's: when the log was told (room.c) */
    char name[WEIR_NAME_MAX];
};

void limit_entry_release(struct limit_entry *l);
static inline struct store *store_of(const struct limit *l)
{
    return ((const struct limit_entry *)l)->store;
}
/* Whether requests can take of it; false and *why: it has a guard. */
bool limit_is_takeable(const struct weir_limit *l, struct weir_diag *why);

struct names *names_open(struct stores *s, struct log *log);
void names_close(struct names *n);
/* Frees what was replaced. Outside of names_enter. */
void names_tidy(struct names *n);
/* Around all work of a worker. */
void names_enter(struct names *n);
void names_leave(struct names *n);
/* In that store. 0 or an error, *why filled. */
int names_set(struct names *n, struct weir__slice name, const char *text, struct store *store,
              struct weir_diag *why);
struct literals *literals_open(struct store *s, struct memory *m);
/* Lets go of those that were pushed out. Between requests, and with nothing gathered. */
void literals_tidy(struct literals *l);
/* Whether that should not wait for the end of the wake-up. */
bool literals_are_many(const struct literals *l);
void literals_close(struct literals *l);
/* `most` bytes of state may a key of it take. */
const struct limit *literals_find(struct literals *l, struct weir__slice text, bool looks,
                                  size_t most, struct weir_diag *why);
const struct limit *literals_cached_throttle(struct literals *l, struct weir__slice said,
                                             int64_t more);
void literals_cache_throttle(struct literals *l, struct weir__slice said, int64_t more,
                             const struct limit *limit);
const struct limit *literals_throttle(struct literals *l, int64_t burst, int64_t count,
                                      int64_t period_s, struct weir_diag *why);

/* ---- Room (room.c) ------------------------------------------------------------------------------- */

/* Tells the log for how many keys of the limit there is room; of all limits. Within names_enter. */
void room_log(struct names *n, struct weir__slice name);
void room_log_all(struct names *n);
/* Tells the log which limits have had more live keys than places. The first worker's, now and then, outside
 * of names_enter. */
void room_check(struct server *s);

/* ---- The server (server.c) --------------------------------------------------------------------- */

struct manual_clock {
    _Atomic int64_t now_ns;
};

struct server {
    struct serve_options options;
    struct stores stores;
    struct weir *engine; /* of the first, whose clock is the daemon's */
    struct manual_clock manual;
    struct log *log;
    struct names *names;
    struct wait_lists *wait_lists;
    struct worker *workers;
    int threads;
    _Atomic uint64_t open_connections, delayed, next_id;
    struct memory memory;
    struct peers *peers;
    _Atomic bool stopping, stopping_now;
    uv_timer_t patience; /* how long a drain may take */
    uv_signal_t signal[2];
    int64_t started_ms;
    pthread_mutex_t stats_lock;
    struct weir_stats stats;
    uint64_t stats_until_ns; /* by uv_hrtime */
    struct {
        int64_t since_ns;
        unsigned lines;
        size_t next; /* whose turn it is, by name */
    } full_log;      /* the first worker's: lines on full limits in this minute (room.c) */
    struct listeners *listeners;
};

/* All workers look up: a clock was set, or it is time to stop. */
void server_wake_all(struct server *s);

/* ---- Listening (listen.c) ---------------------------------------------------------------------- */

struct listeners;
/* 0 or an exit status, and said why on stderr. */
int listeners_open(struct listeners **l, const struct serve_options *o);
/* Accepts on the worker's loop, for all workers. */
int listeners_start(struct listeners *l, struct server *s);
void listeners_stop(struct listeners *l);
void listeners_close(struct listeners *l);
void listeners_announce(const struct listeners *l);
const char *listeners_address(const struct listeners *l);
int listeners_port(const struct listeners *l);

#endif
