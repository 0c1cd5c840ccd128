/* The insides of the server: what its own files share, and no front sees. */
#ifndef WEIR_SERVER_INSIDE_H
#define WEIR_SERVER_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "engine/engine.h"
#include "server/conn.h"
#include "server/log.h"
#include "server/memory.h"
#include "server/stores.h"

#define READ_BYTES    (64 * 1024) /* are read at once */
#define SCRATCH_BYTES (64 * 1024) /* of answers leave before more are written */
#define SCRATCH_USUAL (2 * SCRATCH_BYTES)
#define BATCH_TAKES   ASK_TOGETHER
#define HELD_IN_CONN  1024 /* delayed replies, or named reservations, of one connection at most */
#define FAR_MOST      1024 /* takes of far stores that are under way in a worker */
#define FAR_BYTES     (4 << 20) /* of their keys */
#define FAR_TOGETHER  16   /* of them go out in one write; what is left, before the loop sleeps */
#define INBOX_MAX     1024 /* connections handed to a worker that it has not looked at */
#define SERVE_ADDRESS 128

/* ---- Answers on their way (out.c) -------------------------------------------------------------- */

struct hold;
struct awaited;

struct segment {
    struct segment *next;
    struct hold *hold;       /* whose answer this will be, ... */
    struct awaited *awaited; /* ... or that of a far store; nothing from here on may leave */
    size_t sent, len, cap;
    char bytes[];
};

/* Tries to send what may leave: false if the connection is broken. */
bool out_flush(struct conn *c);
/* The place of an answer that comes later. */
struct segment *out_hold(struct conn *c, struct hold *h);
struct segment *out_await(struct conn *c, struct awaited *a);
/* Forgets the held answers and all behind them: the client is not told of one what belongs to another. */
void out_drop_held(struct conn *c);
/* Writes go to the segment until out_aim(c, NULL). */
void out_aim(struct conn *c, struct segment *s);
/* No answer is being written: the worker's buffer goes back to its usual size. */
void out_tidy(struct worker *w);
/* What can leave has left. */
bool out_is_empty(const struct conn *c);
void out_free(struct conn *c);

/* ---- Connections (conn.c) ---------------------------------------------------------------------- */

enum speaks { SPEAKS_UNKNOWN, SPEAKS_RESP, SPEAKS_HTTP };

struct conn {
    uv_poll_t poll; /* first: the handle is the connection */
    struct worker *worker;
    int fd;
    int events; /* that are polled for */
    uint64_t id;
    enum speaks speaks;
    bool finishing; /* nothing more is read */
    bool closing;   /* uv_close is on its way */
    bool deaf;      /* the client has said all it will say */
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
    struct hold *holds;
    struct reservation *named;
    unsigned held, names;
    struct awaited *awaited; /* answers that come later, other than delayed ones */
    unsigned asked;          /* how many */
    bool asks_many;          /* one of them is worked out in steps */
    struct conn *next_push;
    bool to_push;

    struct resp_session resp;
    struct http_reader *http;
    char peer[46];
    unsigned char came_to; /* 1 + an enum conn_came_to; 0: not looked at yet */
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

/* ---- Answers that come later (later.c) --------------------------------------------------------- */

/* The place of such an answer. */
struct awaited {
    struct conn *conn;       /* NULL: it has left */
    struct segment *segment; /* NULL: it has none yet */
    struct awaited *next, *prev;
    void (*left)(struct awaited *p); /* called when it leaves; or NULL */
};

/* Keeps a place among the connection's answers. */
void place_keep(struct conn *c, struct awaited *p);
/* What is written next goes there, until out_aim(c, NULL). It is no longer waited for. */
void place_fill(struct awaited *p);
/* The connection does not wait for that answer any more; for any. */
void place_abandon(struct awaited *p);
void places_abandon(struct conn *c);

void later_run(uv_idle_t *h);

/* ---- Workers (worker.c) ------------------------------------------------------------------------ */

struct batch {
    size_t n;
    const struct store *store; /* of all of them */
    struct conn *conn;
    struct question question[BATCH_TAKES];
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

    struct weir__moment moment[SERVE_STORES_MAX]; /* of this wake-up, by each store's clock ... */
    unsigned read_in[SERVE_STORES_MAX];           /* ... if it was read in this one */
    unsigned wake_up;                             /* counted, from 1 */

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

    struct hold **heap; /* by when they are due */
    size_t heap_n, heap_cap;
    struct hold *called;  /* whose turn in a line has come; under the lines' lock */
    struct conn *to_push; /* have been answered, and are to be pushed */
    struct later *due_later;
    struct far *far;
    _Atomic unsigned
        far_asked;    /* takes of far stores that are under way; only the worker writes it */
    size_t far_bytes; /* of the keys of those that are */
    bool far_stalled; /* somebody is not read from, for there were FAR_MOST of them */

    struct counters counters;
    char pad[64];
};

int worker_open(struct worker *w, struct server *s, int index); /* 0 or an errno */
void worker_run(struct worker *w);
void worker_close(struct worker *w);
void worker_give(struct worker *w, int fd);
struct weir__moment worker_moment(struct worker *w, const struct store *s);
/* What follows is later. */
static inline void worker_moment_is_over(struct worker *w)
{
    w->wake_up++;
}

/* Pushes those that have been answered. Outside of names_enter. */
void worker_push_all(struct worker *w);

/* Counts an answer (batch.c). */
void ask_tally(struct worker *w, int error, const struct weir_verdict *v);

/* ---- Far stores (far_take.c, far_many.c, far_lane.c) ------------------------------------------- */

int far_open(struct worker *w); /* 0 or an errno */
/* All connections are closed. What is under way is told; the loop may still be run. */
void far_close(struct worker *w);
void far_free(struct worker *w);

/* Takes from a far store. Answered now or later, in its place. */
void far_take(struct conn *c, const struct question *q);
/* Those of the questions that ask far stores, as ask_take_many. */
struct many *far_take_many(struct worker *w, const struct question *q, size_t n,
                           struct weir_verdict *v, int *error, ask_told *when_told, void *arg);
/* Waits until all that this worker takes from that store is answered, so that who asks next sees it. */
void far_settle(struct worker *w, const struct store *s);
static inline bool far_is_full(const struct worker *w)
{
    return atomic_load_explicit(&w->far_asked, memory_order_relaxed) >= FAR_MOST ||
           w->far_bytes >= FAR_BYTES;
}
/* Sends what was begun, and sees to it that the loop wakes up for the answers. */
void far_before_sleep(struct worker *w);

/* ---- Waiting (wait.c) -------------------------------------------------------------------------- */

/* A question that holds, or has a name: reserved, answered or held. */
void wait_ask(struct conn *c, const struct question *q);
/* Whatever of this worker's is due or called. */
void wait_run(struct worker *w);
/* Outside of names_enter. The connection ends: gives back what it waits for and what it named. */
void wait_abandon(struct conn *c);
/* Before the loop sleeps. */
void wait_set_timer(struct worker *w);

struct lines;
struct lines *lines_open(void);
void lines_close(struct lines *l);

/* ---- Names (names.c, limits.c, literals.c) --------------------------------------------------- */

/* A limit that may be held. */
struct held_limit {
    struct limit limit; /* first: fronts see this */
    struct weir_limit parsed;
    struct store *store;
    uint64_t identity; /* whose keys: equal where the keys are the same */
    _Atomic int holders;
    _Atomic bool gone;     /* its policy was forgotten */
    bool unlisted;         /* its policy is */
    struct memory *memory; /* where it is counted, if it came with a request */
    struct held_limit *next_retired;
    struct {
        uint64_t evicted, refusals; /* as they were then */
        int64_t at_ns;              /* -1: never */
    } told_full;                    /* the first worker's: when the log was told (room.c) */
    char name[WEIR_NAME_MAX];
};

void held_limit_let_go(struct held_limit *l);
static inline struct store *store_of(const struct limit *l)
{
    return ((const struct held_limit *)l)->store;
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
const struct limit *literals_again(struct literals *l, struct weir__slice said, int64_t more);
void literals_said(struct literals *l, struct weir__slice said, int64_t more,
                   const struct limit *limit);
const struct limit *literals_throttle(struct literals *l, int64_t burst, int64_t count,
                                      int64_t period_s, struct weir_diag *why);

/* ---- Room (room.c) ------------------------------------------------------------------------------- */

/* Tells the log for how many keys of the limit there is room; of all limits. Within names_enter. */
void room_tell(struct names *n, struct weir__slice name);
void room_tell_all(struct names *n);
/* Tells the log which limits have had more live keys than places. The first worker's, now and then, outside
 * of names_enter. */
void room_look(struct server *s);

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
    struct lines *lines;
    struct worker *workers;
    int threads;
    _Atomic uint64_t open_connections, held, next_id;
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
    } told_full;     /* the first worker's: lines on full limits in this minute (room.c) */
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
