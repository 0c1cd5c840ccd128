/* The scenes: what a process may be doing when it is killed, and what comes before. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenes.h"
#include "step.h"

#define MAX_KEYS 16
#define LEAST    20     /* changes of the file that three takes make */
#define LONG     200000 /* points of a first decision, at most */

/* ---- Deeds ----------------------------------------------------------------------------------- */

static int take(struct scene_store *b, int parts)
{
    struct weir_verdict v;

    (void)parts;
    return weir_take_at(b->w, &b->rq[0], PROBE_NOW, &v);
}

static int take_three(struct scene_store *b, int parts)
{
    struct weir_verdict v;

    (void)parts;
    return weir_take_all_at(b->w, b->rq, 3, PROBE_NOW, &v);
}

static int take_wide(struct scene_store *b, int parts)
{
    struct weir_verdict v;

    (void)parts;
    return weir_take_all_at(b->w, b->wide, b->wides, PROBE_NOW, &v);
}

static int take_batch(struct scene_store *b, int parts)
{
    struct weir_verdict v[SCENE_REQUESTS];

    return weir_take_many_at(b->w, b->rq, (size_t)parts, PROBE_NOW, v);
}

static int refund(struct scene_store *b, int parts)
{
    (void)parts;
    return weir_refund_at(b->w, &b->rq[0], PROBE_NOW, NULL);
}

static int refund_all(struct scene_store *b, int parts)
{
    struct weir_request rq = b->rq[0];

    (void)parts;
    rq.cost = 1000;
    return weir_refund_at(b->w, &rq, PROBE_NOW, NULL);
}

static int reset(struct scene_store *b, int parts)
{
    (void)parts;
    return weir_reset_at(b->w, &b->rq[0], PROBE_NOW);
}

static int cancel(struct scene_store *b, int parts)
{
    (void)parts;
    return weir_cancel_at(b->w, &b->reservation, PROBE_NOW, NULL);
}

/* Looks at later times find whether it lapses, too. */
static int estimate(struct scene_store *b, int parts)
{
    struct weir_request rq = b->rq[0];
    struct weir_verdict v;
    uint64_t id;

    (void)parts;
    rq.cost = 3;
    return weir_account_reserve_at(b->w, &rq, PROBE_SECOND, WEIR_LAPSE_FREE, PROBE_NOW, &id, &v);
}

static int commit(struct scene_store *b, int64_t cost)
{
    struct weir_request rq = b->rq[0];
    struct weir_verdict v;

    rq.cost = cost;
    return weir_account_commit_at(b->w, &rq, b->estimate, PROBE_NOW, &v);
}

static int commit_less(struct scene_store *b, int parts)
{
    (void)parts;
    return commit(b, 1);
}

static int commit_more(struct scene_store *b, int parts)
{
    (void)parts;
    return commit(b, 9);
}

static int set(struct scene_store *b, enum probe_policy p, const char *limit)
{
    return weir_policy_set_at(b->w, probe_name(p), limit, PROBE_NOW, NULL, NULL);
}

static int set_faster(struct scene_store *b, int parts)
{
    (void)parts;
    return set(b, PROBE_BUCKET, "token-bucket 20/1m");
}

static int set_slower(struct scene_store *b, int parts)
{
    (void)parts;
    return set(b, PROBE_BUCKET, "token-bucket 5/1m");
}

static int set_another(struct scene_store *b, int parts)
{
    (void)parts;
    return set(b, PROBE_WINDOW, "sliding-counter 10/1m");
}

static int set_new(struct scene_store *b, int parts)
{
    (void)parts;
    return set(b, PROBE_LATER, "fixed-window 10/1m");
}

static int set_new_size(struct scene_store *b, int parts)
{
    (void)parts;
    return set(b, PROBE_LATER, probe_limit(PROBE_LATER));
}

static int forget(struct scene_store *b, int parts)
{
    (void)parts;
    weir_policy_forget(b->w, b->rq[0].policy);
    return 0;
}

/* ---- What comes before ----------------------------------------------------------------------- */

static void must(int error, const char *what)
{
    if (error == 0)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, weir_error_name(error));
    exit(2);
}

static void reserve(struct scene_store *b)
{
    struct weir_verdict v;

    b->rq[0].patience_ns = WEIR_FOREVER;
    must(weir_reserve_at(b->w, b->rq, 1, PROBE_NOW, &b->reservation, &v), "reserve");
}

/* An estimate of 4, which a commit settles; and of another key, so that the table exists. */
static void estimate_before(struct scene_store *b)
{
    struct weir_request rq = b->rq[0];
    struct weir_verdict v;
    uint64_t other;

    rq.cost = 4;
    must(weir_account_reserve_at(b->w, &rq, 60 * PROBE_SECOND, WEIR_LAPSE_KEEP, PROBE_NOW,
                                 &b->estimate, &v),
         "estimate");
    probe_estimate(b->scene->of[0].policy, b->scene->of[0].key, b->estimate);
    rq.key = "other";
    rq.key_len = strlen("other");
    must(weir_account_reserve_at(b->w, &rq, 60 * PROBE_SECOND, WEIR_LAPSE_KEEP, PROBE_NOW, &other,
                                 &v),
         "another estimate");
}

/* One that has lapsed as nothing: the next take gives it back first. */
static void estimate_lapsed(struct scene_store *b)
{
    struct weir_request rq = b->rq[0];
    struct weir_verdict v;

    rq.cost = 4;
    must(weir_account_reserve_at(b->w, &rq, PROBE_SECOND, WEIR_LAPSE_FREE,
                                 PROBE_NOW - 2 * PROBE_SECOND, &b->estimate, &v),
         "estimate");
}

static void change(struct scene_store *b)
{
    must(set(b, PROBE_BUCKET, "token-bucket 20/1m"), "change");
}

/* Sixteen terms, most of them large and in tables of their own. */
static void widen(struct scene_store *b)
{
    int terms = 2; /* more than policies: one has three */

    for (int p = 0; p < PROBE_LATER; p++, terms++)
        b->wide[b->wides++] = probe_request(b->w, (enum probe_policy)p, p % 4);
    for (; terms < WEIR_TERMS_MAX; terms++) {
        struct weir_policy *policy;
        char name[20], limit[40];

        (void)snprintf(name, sizeof name, "wide %d", terms);
        (void)snprintf(limit, sizeof limit, "sliding-log %d/1m", 2 << (terms - 6));
        must(weir_policy_set_at(b->w, name, limit, PROBE_T0, &policy, NULL), name);
        b->wide[b->wides++] = weir_request_of(policy, "key", 3);
    }
}

/* The key gets no place, and is charged in its cells. */
static void ask_once(struct scene_store *b)
{
    struct weir_verdict v;

    must(weir_take_at(b->w, &b->rq[0], PROBE_NOW - PROBE_SECOND / 8, &v), "ask once");
}

static void crowd(struct scene_store *b)
{
    for (char c = 'a'; c < 'i'; c++) {
        const struct weir_request rq = {b->rq[0].policy, &c, 1, 1, 0};
        struct weir_verdict v;

        must(weir_take_at(b->w, &rq, PROBE_NOW - PROBE_SECOND / 8, &v), "crowd");
    }
}

static void *sit(void *arg)
{
    struct scene_store *b = arg;
    struct weir_verdict v;

    (void)weir_peek_at(b->w, &b->rq[0], PROBE_NOW, &v);
    for (;;)
        (void)pause();
    return NULL;
}

static int take_three_of(void *bed)
{
    return take_three(bed, 1);
}

static int take_three_late(struct scene_store *b, const struct step_deed *d, struct step_trace *t,
                           bool dies, int owners, size_t k)
{
    const pid_t child = fork();
    int status;

    if (child != 0) {
        (void)waitpid(child, &status, 0);
        return status;
    }
    for (int i = 0; i < owners; i++) {
        pthread_t thread;
        struct timespec nap = {0, 2000000};

        (void)pthread_create(&thread, NULL, sit, b);
        (void)nanosleep(&nap, NULL);
    }
    if (dies)
        step_die_at(d, t, k);
    else
        step_rehearse(d, t);
    _exit(0);
}

/* Leaves three keys half charged, by an owner that comes after `owners` others. */
static void die_amid(struct scene_store *b, int owners)
{
    const struct step_deed d = {
        .act = take_three_of, .arg = b, .watch = {{b->file.at, image_bytes(&b->file)}}};
    struct step_trace *t = step_trace_open(LONG);
    struct image start = {0};
    size_t changes, k = 0;

    image_save(&b->file, &start);
    must(take_three_late(b, &d, t, false, owners, 0), "a rehearsal of dying");
    must(!t->whole, "a whole rehearsal of dying");
    image_restore(&b->file, &start);
    image_free(&start);
    step_index(t);
    changes = step_changes(t);
    must(changes < LEAST, "a rehearsal of dying that changes the file");
    for (size_t seen = 0; seen < changes * 4 / 5; k++)
        seen += t->point[k].changed;
    must(take_three_late(b, &d, t, true, owners, k) != SIGKILL, "dying");
    step_trace_close(t);
}

static void die_as_the_first_owner(struct scene_store *b)
{
    die_amid(b, 0);
}

static void die_as_a_later_owner(struct scene_store *b)
{
    die_amid(b, 2);
}

/* ---- Scenes ---------------------------------------------------------------------------------- */

#define NEW PROBE_NEW
#define ONE(p)           \
    {                    \
        {                \
            PROBE_##p, 0 \
        }                \
    }
#define THREE                              \
    {                                      \
        {PROBE_BUCKET, 0}, {PROBE_LOG, 1}, \
        {                                  \
            PROBE_COUNTER, NEW             \
        }                                  \
    }

const struct scene scenes[] = {
    {.name = "take, token-bucket", .act = take, .of = ONE(BUCKET)},
    {.name = "take, fixed-window", .act = take, .of = ONE(WINDOW)},
    {.name = "take, sliding-counter", .act = take, .of = ONE(COUNTER)},
    {.name = "take, smooth-warmup", .act = take, .of = ONE(WARM)},
    {.name = "take, sliding-window", .act = take, .of = ONE(RING)},
    {.name = "take, sliding-log", .act = take, .of = ONE(LOG)},
    {.name = "take, pacer", .act = take, .of = ONE(PACER)},
    {.name = "take of several terms", .act = take, .of = ONE(BOTH)},
    {.name = "take of a new key", .act = take, .of = {{PROBE_BUCKET, NEW}}},
    {.name = "take of a new key, sliding-log", .act = take, .of = {{PROBE_LOG, NEW}}},
    {.name = "take of a new key of several terms", .act = take, .of = {{PROBE_BOTH, NEW}}},
    {.name = "take of a new key that gets no place",
     .act = take,
     .of = {{PROBE_WINDOW, NEW}},
     .max_keys = 1,
     .charged = 7},
    {.name = "reset of a key without a place, which evicts",
     .act = reset,
     .of = {{PROBE_WINDOW, NEW}},
     .max_keys = 1,
     .charged = 7,
     .prepare = ask_once,
     .evicts = true},
    {.name = "take of a new key that evicts one of another limit",
     .act = take,
     .of = {{PROBE_BUCKET, NEW}},
     .max_keys = 1,
     .charged = 7,
     .evicts = true},
    {.name = "take of a new key that evicts, sliding-log",
     .act = take,
     .of = {{PROBE_LOG, NEW}},
     .max_keys = 1,
     .charged = 3,
     .prepare = crowd,
     .evicts = true},
    {.name = "take after a live change", .act = take, .of = ONE(BUCKET), .prepare = change},
    {.name = "take_all, one of three new", .act = take_three, .of = THREE},
    {.name = "take_all, all new",
     .act = take_three,
     .of = {{PROBE_BUCKET, NEW}, {PROBE_LOG, NEW}, {PROBE_RING, NEW}}},
    {.name = "take_all, one gets no place",
     .act = take_three,
     .of = {{PROBE_WINDOW, NEW}, {PROBE_LOG, 0}, {PROBE_WARM, 1}},
     .max_keys = 1,
     .charged = 7},
    {.name = "take_all, a key twice",
     .act = take_three,
     .of = {{PROBE_LOG, 0}, {PROBE_LOG, 0}, {PROBE_BUCKET, 1}}},
    {.name = "take_all, three of one table",
     .act = take_three,
     .of = {{PROBE_LOG, 2}, {PROBE_LOG, NEW}, {PROBE_LOG, 0}}},
    {.name = "take_all of sixteen terms", .act = take_wide, .of = ONE(BUCKET), .prepare = widen},
    {.name = "take_many",
     .act = take_batch,
     .of = {{PROBE_BUCKET, 0}, {PROBE_LOG, NEW}, {PROBE_BOTH, 1}},
     .parts = 3},
    {.name = "refund", .act = refund, .of = ONE(LOG)},
    {.name = "refund of all, which forgets the key", .act = refund_all, .of = ONE(WINDOW)},
    {.name = "reset", .act = reset, .of = ONE(BUCKET)},
    {.name = "reset, sliding-window", .act = reset, .of = ONE(RING)},
    {.name = "cancel", .act = cancel, .of = ONE(PACER), .prepare = reserve},
    {.name = "the first estimate", .act = estimate, .of = ONE(BUCKET)},
    {.name = "an estimate", .act = estimate, .of = ONE(BOTH), .prepare = estimate_before},
    {.name = "commit of less", .act = commit_less, .of = ONE(BUCKET), .prepare = estimate_before},
    {.name = "commit of less, several terms",
     .act = commit_less,
     .of = ONE(BOTH),
     .prepare = estimate_before},
    {.name = "commit of more", .act = commit_more, .of = ONE(LOG), .prepare = estimate_before},
    {.name = "take after a lapse", .act = take, .of = ONE(BOTH), .prepare = estimate_lapsed},
    {.name = "a first decision", .act = take, .of = ONE(BUCKET), .unseated = true},
    {.name = "a first decision in a dead owner's slot",
     .act = take_three,
     .of = THREE,
     .prepare = die_as_the_first_owner,
     .unseated = true},
    {.name = "a decision that meets a dead one's locks",
     .act = take_three,
     .of = THREE,
     .prepare = die_as_a_later_owner},
    {.name = "set, faster", .act = set_faster, .of = ONE(BUCKET)},
    {.name = "set, slower", .act = set_slower, .of = ONE(BUCKET)},
    {.name = "set, another algorithm", .act = set_another, .of = ONE(WINDOW)},
    {.name = "set, a new policy", .act = set_new, .of = ONE(BUCKET)},
    {.name = "set, a new size of state", .act = set_new_size, .of = ONE(BUCKET)},
    {.name = "forget", .act = forget, .of = ONE(WINDOW)},
};
const int scenes_count = (int)(sizeof scenes / sizeof *scenes);

/* ---- Setting a scene ------------------------------------------------------------------------- */

/* Key k<i> has been asked i + 1 times in the last five seconds; those that shape
 * are reserved ahead. */
static void charge(struct weir *w, int keys)
{
    for (int p = 0; p < PROBE_LATER; p++)
        for (int key = 0; key < keys; key++)
            for (int i = 0; i <= key; i++) {
                const struct weir_request rq = probe_request(w, (enum probe_policy)p, key);
                struct weir_verdict v;

                must(weir_take_at(w, &rq, PROBE_NOW - (20 - key - 2 * i) * PROBE_SECOND / 4, &v),
                     "charge");
            }
}

void scene_open(struct scene_store *b, const struct scene *s)
{
    struct weir_options o = {.store = b->store,
                             .max_keys = s->max_keys ? s->max_keys : MAX_KEYS,
                             .max_memory = 32 << 20,
                             .max_policies = PROBE_ALL + 6,
                             .secret = {20240101, 4}};

    memset(b, 0, sizeof *b);
    b->scene = s;
    probe_estimate(PROBE_BUCKET, 0, 0);
    folder_path(b->path, "scene");
    folder_store(b->store, "scene");
    must(weir_open(&b->w, &o, NULL), "open");
    b->file = image_open(b->path);
    for (int p = 0; p < PROBE_LATER; p++)
        must(weir_policy_set_at(b->w, probe_name((enum probe_policy)p),
                                probe_limit((enum probe_policy)p), PROBE_T0, NULL, NULL),
             "set");
    charge(b->w, s->charged ? s->charged : 3);
    for (int i = 0; i < SCENE_REQUESTS; i++)
        b->rq[i] = probe_request(b->w, s->of[i].policy, s->of[i].key);
    if (s->prepare)
        s->prepare(b);
}

void scene_close(struct scene_store *b)
{
    weir_close(b->w);
    image_close(&b->file);
    (void)unlink(b->path);
}
