/* Random damage: words and bytes written anywhere into a state file, while it is closed and while
 * processes use it: `damage_random [--trials N] [--seed N] [--only closed|live]`.
 *
 * A trial is one write. The file has a policy of every kind of state and keys under each. Closed,
 * it gets a few writes and is then opened, used and closed. Live, a writer hits it again and again
 * while children take, peek, refund, reset, set policies and enter guards; every other round the
 * writer also kills one of them now and then.
 *
 * Checked:
 *   (1) No process dies of a signal, and none hangs: every child ends within its time.
 *   (2) No cost above a limit is ever granted.
 *   (3) The keys of the policy "law" are never granted more than it says. Their buckets and the
 *       policy's record are the one thing that is spared, for what they hold is what the promise is
 *       about. (Not checked where children are killed: what a dead one had saved may be damaged
 *       too.)
 */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weir.h>

#include "../engine/backend.h"
#include "engine/store/format.h"
#include "folder.h"
#include "image.h"
#include "table/layout.h"

#define LENGTH(a)  (sizeof(a) / sizeof *(a))
#define SECOND     INT64_C(1000000000)
#define T0         (INT64_C(1704067200) * SECOND)
#define HANG_S     60
#define LAW_LIMIT  50
#define LAW_KEYS   8
#define CHILDREN   2
#define AT_ONCE    12  /* writes to a closed file */
#define IN_A_ROUND 400 /* writes to one in use */
#define IN_A_CHILD 100 /* closed files that one child opens: a fork takes longest */

static const struct {
    const char *name, *limit;
    int64_t most; /* no larger cost may pass; 0: any may */
} POLICIES[] = {
    {"law", "fixed-window 50/300d", LAW_LIMIT},
    {"bucket", "token-bucket 10/s burst=20", 20},
    {"leaky", "leaky-bucket 10/s capacity=6 delay=2", 6},
    {"pacer", "pacer 10/s", 0},
    {"counter", "sliding-counter 20/1m", 20},
    {"ring", "sliding-window 20/1m slots=10", 20},
    {"log", "sliding-log 20/1h min-interval=1ms", 20},
    {"long log", "sliding-log 300/1h", 300},
    {"warm", "smooth-warmup 2/s warmup=4s", 0},
    {"gap", "min-interval 100ms", 1},
    {"two", "fixed-window 9/day + sliding-log 5/1m", 5},
    {"crowd", "concurrency 5 lease=60s", 5},
    {"breaker", "breaker", 0},
    {"bbr", "bbr", 0},
    {"vegas", "vegas", 0},
    {"adaptive", "adaptive-rate 1k/s min=100 max=10k", 10000},
};

/* Shared with the children. */
struct damage_board {
    _Atomic int granted[LAW_KEYS];
    _Atomic int stop, wrong;
    _Atomic uint64_t seed; /* of the trial that is under way */
    _Atomic uint64_t answers, errors;
    char first_wrong[200];
};

static struct damage_board *board;
static uint64_t random_state;
static struct image sound;
static unsigned char *spared; /* by 8 bytes of the file */
static char path[FOLDER_PATH], store[FOLDER_PATH];

static uint64_t roll(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return random_state >> 16;
}

static void damage_wrong(const char *what, const char *name)
{
    if (atomic_fetch_add(&board->wrong, 1) == 0)
        (void)snprintf(board->first_wrong, sizeof board->first_wrong, "%s: %s", name, what);
}

static void must(bool good, const char *what)
{
    if (good)
        return;
    (void)fprintf(stderr, "damage_random: %s\n", what);
    exit(2);
}

/* ---- The file that is damaged ---------------------------------------------------------------- */

static struct weir_request request_of(struct weir_policy *p, int key, char text[16])
{
    const int n = snprintf(text, 16, "key %d", key);

    return weir_request_of(p, text, (size_t)n);
}

static const struct weir__table *table_of(uint32_t c)
{
    const struct weir__header *h = (const void *)sound.at;

    return (const void *)(sound.at + atomic_load(&h->table[c].at));
}

static void spare(const void *at, size_t bytes)
{
    const size_t from = (size_t)((const char *)at - sound.at);

    for (size_t i = from / 8; i < (from + bytes + 7) / 8; i++)
        spared[i] = 1;
}

/* Both buckets of each key that there is: so far only the law's have been asked for. */
static void spare_the_law(void)
{
    const struct weir__header *h = (const void *)sound.at;
    const struct weir__directory *d = (const void *)(sound.at + h->directory_at);
    const struct weir__table *t = table_of(0);

    spared = calloc(1, sound.bytes / 8 + 1);
    must(spared != NULL, "out of memory");
    for (uint64_t b = 0; b < t->buckets_max; b++)
        for (uint64_t place = 0; place < t->places; place++) {
            const uint64_t fingerprint = weir__bucket_get(weir__bucket_at(t, b), place);
            struct weir__access hold;

            if (fingerprint == 0)
                continue;
            (void)weir__table_candidates(t, fingerprint, &hold);
            for (int i = 0; i < 2 && hold.bucket[i]; i++)
                spare(hold.bucket[i], t->bucket_bytes);
        }
    for (uint64_t i = 0; i < h->max_policies; i++)
        if (strcmp(d->record[i].name, "law") == 0)
            spare(&d->record[i], sizeof d->record[i]);
}

static void save(void)
{
    struct image_file f = image_open(path);

    image_save(&f, &sound);
    image_close(&f);
}

/* In a child, because closing a descriptor of a file drops all locks of the process on it. */
static void make_file(void)
{
    const struct weir_options o = {.store = store, .max_keys = 300, .max_policies = 20};
    struct weir_verdict v;
    struct weir *w;

    must(weir_open(&w, &o, NULL) == 0, "cannot make the file");
    for (size_t i = 0; i < LENGTH(POLICIES); i++) {
        struct weir_policy *p;
        char key[16];

        must(weir_policy_set_at(w, POLICIES[i].name, POLICIES[i].limit, T0, &p, NULL) == 0,
             POLICIES[i].limit);
        for (int k = 0; k < LAW_KEYS && i == 0; k++) {
            const struct weir_request rq = request_of(p, k, key);

            must(weir_take_at(w, &rq, T0, &v) == 0 && v.allowed, "the law is broken already");
        }
    }
    weir_close(w);
}

/* ---- Writes ---------------------------------------------------------------------------------- */

static uint64_t a_word(void)
{
    static const uint64_t words[] = {0,
                                     UINT64_MAX,
                                     INT64_MAX,
                                     (uint64_t)INT64_MIN,
                                     UINT64_C(1) << 40,
                                     4096,
                                     UINT64_C(0x7f0000000000),
                                     1,
                                     300,
                                     UINT32_MAX,
                                     T0};

    return roll() % 3 ? words[roll() % LENGTH(words)] : roll() * UINT64_C(0x9e3779b97f4a7c15);
}

/* As often into the header, the first journals, the directory, a table's header, its buckets, and
 * anywhere. */
static size_t a_place(void)
{
    const struct weir__header *h = (const void *)sound.at;
    uint64_t from = 0, bytes = sound.bytes;
    uint32_t c = (uint32_t)(roll() % WEIR__SIZE_CLASSES);

    while (atomic_load(&h->table[c].at) == 0)
        c = (c + 1) % WEIR__SIZE_CLASSES;
    switch (roll() % 6) {
    case 0: bytes = sizeof *h; break;
    case 1:
        from = h->journals_at;
        bytes = 4 * sizeof(struct weir__journal);
        break;
    case 2:
        from = h->directory_at;
        bytes = weir__directory_size(h->max_policies);
        break;
    case 3:
        from = atomic_load(&h->table[c].at);
        bytes = roll() % 2 ? 256 : WEIR__TABLE_HEADER;
        break;
    case 4:
        from = atomic_load(&h->table[c].at) + WEIR__TABLE_HEADER;
        bytes = h->table[c].bytes - WEIR__TABLE_HEADER;
        break;
    default: break;
    }
    return (size_t)((from + roll() % bytes) & ~UINT64_C(7));
}

static void write_one(char *at)
{
    const size_t place = a_place();
    const uint64_t word = a_word();

    if (spared[place / 8] || place + 8 > sound.bytes)
        return;
    switch (roll() % 4) {
    case 0: ((volatile unsigned char *)at)[place + roll() % 8] = (unsigned char)word; return;
    case 1: ((volatile uint32_t *)(void *)at)[place / 4 + roll() % 2] = (uint32_t)word; return;
    default: ((volatile uint64_t *)(void *)at)[place / 8] = word; return;
    }
}

/* ---- Use ------------------------------------------------------------------------------------- */

struct damage_user {
    struct weir *w;
    uint64_t random;
    int64_t now_ns;
};

static uint64_t user_roll(struct damage_user *u)
{
    u->random = u->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return u->random >> 16;
}

static void judge(int error, const struct weir_verdict *v, size_t policy, int64_t cost)
{
    atomic_fetch_add(error ? &board->errors : &board->answers, 1);
    if (!error && v->allowed && POLICIES[policy].most && cost > POLICIES[policy].most)
        damage_wrong("a cost above the limit was granted", POLICIES[policy].name);
}

/* One event of a key of the law: what is granted goes into the book. */
static void take_by_law(struct damage_user *u, struct weir_policy *p)
{
    const int k = (int)(user_roll(u) % LAW_KEYS);
    struct weir_verdict v;
    char key[16];
    const struct weir_request rq = request_of(p, k, key);
    const int error = weir_take_at(u->w, &rq, u->now_ns, &v);

    judge(error, &v, 0, 1);
    if (!error && v.allowed && atomic_fetch_add(&board->granted[k], 1) >= LAW_LIMIT)
        damage_wrong("a key was granted more than its law", "law");
}

static void use_others(struct damage_user *u, struct weir_policy *p, size_t i)
{
    struct weir_verdict v[3];
    struct weir_request rq[3];
    struct weir_reservation r;
    struct weir_ticket t;
    char key[3][16];

    for (int k = 0; k < 3; k++) {
        rq[k] = request_of(p, (int)(100 + user_roll(u) % 12), key[k]);
        rq[k].cost = user_roll(u) % 4 ? 1 : POLICIES[i].most + 1;
        rq[k].patience_ns = user_roll(u) % 2 ? 0 : WEIR_FOREVER;
    }
    judge(weir_take_at(u->w, &rq[0], u->now_ns, v), v, i, rq[0].cost);
    judge(weir_peek_at(u->w, &rq[1], u->now_ns, v), v, i, rq[1].cost);
    (void)weir_take_all_at(u->w, rq, 3, u->now_ns, v);
    (void)weir_take_many_at(u->w, rq, 3, u->now_ns, v);
    (void)weir_refund_at(u->w, &rq[2], u->now_ns, NULL);
    if (weir_reserve_at(u->w, rq, 2, u->now_ns, &r, v) == 0)
        (void)weir_cancel_at(u->w, &r, u->now_ns, NULL);
    if (weir_enter_at(u->w, &rq[0], u->now_ns, &t, v) == 0 && v[0].allowed)
        (void)weir_exit_at(u->w, &t, (enum weir_outcome)(user_roll(u) % 4), u->now_ns + 1000);
    if (user_roll(u) % 16 == 0)
        (void)weir_reset_at(u->w, &rq[1], u->now_ns);
}

static void change_policies(struct damage_user *u)
{
    static const char *const limits[] = {"sliding-log 20/1h", "5/s", "sliding-window 9/1m slots=60",
                                         "token-bucket 7/s burst=9"};
    struct weir_policy *p = NULL;
    struct weir_stats stats;

    (void)weir_policy_set_at(u->w, "new", limits[user_roll(u) % LENGTH(limits)], u->now_ns, &p,
                             NULL);
    if (p && user_roll(u) % 4 == 0)
        (void)weir_policy_forget(u->w, p);
    (void)weir_stats_at(u->w, u->now_ns, &stats);
    p = NULL;
    for (int i = 0; i < 100 && (p = weir_policy_next(u->w, p)) != NULL;)
        i++;
}

static void use_all(struct damage_user *u)
{
    for (size_t i = 0; i < LENGTH(POLICIES) && !atomic_load(&board->stop); i++) {
        struct weir_policy *p = weir_policy_find(u->w, POLICIES[i].name);

        u->now_ns += (int64_t)(user_roll(u) % SECOND) / 50;
        if (p && i == 0)
            for (int k = 0; k < 2 * LAW_KEYS; k++)
                take_by_law(u, p);
        else if (p)
            use_others(u, p, i);
    }
    change_policies(u);
}

/* Errors are answers here. */
static bool open_it(struct damage_user *u, uint64_t seed)
{
    /* Full is full: an eviction of the law's keys would be no damage. */
    const struct weir_options o = {.store = store, .full = WEIR_FULL_DENY};

    *u = (struct damage_user){.random = seed, .now_ns = T0 + SECOND};
    return weir_open(&u->w, &o, NULL) == 0;
}

/* ---- Children -------------------------------------------------------------------------------- */

static pid_t begin(void (*does)(uint64_t), uint64_t arg)
{
    const pid_t child = fork();

    must(child >= 0, "cannot fork");
    if (child == 0) {
        (void)alarm(HANG_S);
        does(arg);
        _exit(0);
    }
    return child;
}

static bool ended_well(pid_t child, bool killed)
{
    int status;

    must(waitpid(child, &status, 0) == child, "cannot wait");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    (void)printf("FAILED: seed %" PRIu64 ": a process %s\n", atomic_load(&board->seed),
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "ended with an error");
    return false;
}

static bool is_right(void)
{
    if (atomic_load(&board->wrong) == 0)
        return true;
    (void)printf("FAILED: seed %" PRIu64 ": %s (%d in all)\n", atomic_load(&board->seed),
                 board->first_wrong, atomic_load(&board->wrong));
    return false;
}

static void forget_grants(void)
{
    for (int k = 0; k < LAW_KEYS; k++)
        atomic_store(&board->granted[k], 1); /* when the file was made */
    atomic_store(&board->stop, 0);
}

/* ---- Closed ---------------------------------------------------------------------------------- */

static void damage_and_open(uint64_t seed)
{
    struct image_file f = image_open(path);

    for (uint64_t i = 0; i < IN_A_CHILD; i++) {
        struct damage_user u;

        (void)alarm(HANG_S);
        random_state = seed + i;
        atomic_store(&board->seed, seed + i);
        image_restore(&f, &sound);
        forget_grants();
        for (uint64_t n = roll() % AT_ONCE; n < AT_ONCE; n++)
            write_one(f.at);
        if (!open_it(&u, seed + i))
            continue;
        use_all(&u);
        weir_close(u.w);
    }
}

static bool closed(uint64_t trials, uint64_t seed)
{
    uint64_t done = 0, files = 0;
    bool good = true;

    for (; done < trials && good; seed += IN_A_CHILD) {
        good = ended_well(begin(damage_and_open, seed), false) && is_right();
        files += IN_A_CHILD;
        done += IN_A_CHILD * (AT_ONCE + 1) / 2;
    }
    (void)printf("closed: about %" PRIu64 " writes into %" PRIu64 " files\n", done, files);
    return good;
}

/* ---- Live ------------------------------------------------------------------------------------ */

static void use_until_told(uint64_t seed)
{
    struct damage_user u;

    while (!atomic_load(&board->stop)) {
        if (!open_it(&u, seed++)) {
            (void)usleep(1000);
            continue;
        }
        for (int i = 0; i < 20 && !atomic_load(&board->stop); i++)
            use_all(&u);
        weir_close(u.w);
    }
}

/* The writer's file stays open: closing it would drop only its own locks, and it has none. */
static bool live_round(struct image_file *f, uint64_t seed, bool kills)
{
    pid_t child[CHILDREN];
    bool good = true;

    random_state = seed;
    atomic_store(&board->seed, seed);
    image_restore(f, &sound);
    forget_grants();
    for (int i = 0; i < CHILDREN; i++)
        child[i] = begin(use_until_told, seed + (uint64_t)i);
    for (int i = 0; i < IN_A_ROUND; i++) {
        write_one(f->at);
        (void)usleep((useconds_t)(roll() % (UNDER_ASAN ? 600 : 200)));
        if (kills && roll() % 100 == 0)
            (void)kill(child[0], SIGKILL);
    }
    atomic_store(&board->stop, 1);
    for (int i = 0; i < CHILDREN; i++)
        good = ended_well(child[i], kills) && good;
    if (kills) /* what the dead had saved may be damaged */
        atomic_store(&board->wrong, 0);
    return is_right() && good;
}

static bool live(uint64_t trials, uint64_t seed)
{
    struct image_file f = image_open(path);
    uint64_t done = 0;
    bool good = true;

    for (; done < trials && good; done += IN_A_ROUND, seed += CHILDREN)
        good = live_round(&f, seed, done / IN_A_ROUND % 2 == 1);
    (void)printf("live: %" PRIu64 " writes under %d processes; %" PRIu64 " answers, %" PRIu64
                 " errors\n",
                 done, CHILDREN, atomic_load(&board->answers), atomic_load(&board->errors));
    image_close(&f);
    return good;
}

static void make_and_leave(uint64_t unused)
{
    (void)unused;
    make_file();
}

int main(int argc, char **argv)
{
    uint64_t trials = UNDER_ASAN ? 2000 : 6000, seed = (uint64_t)time(NULL) * 1000;
    const char *only = "";
    bool good = true;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--trials") == 0)
            trials = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)printf("seed %" PRIu64 "\n", seed);
    folder_open();
    folder_path(path, "hit");
    folder_store(store, "hit");
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(board != MAP_FAILED, "cannot map");
    must(ended_well(begin(make_and_leave, 0), false), "cannot make the file");
    save();
    spare_the_law();
    if (strcmp(only, "live") != 0)
        good = closed(trials, seed) && good;
    if (strcmp(only, "closed") != 0)
        good = live(trials, seed) && good;
    (void)printf("damage-random: %d passed, %d failed\n", good, !good);
    return !good;
}
