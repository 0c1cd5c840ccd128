/* A load generator: many threads that take from one key of a store, and record what they saw.
 *
 *     remote_hammer URL LIMIT [NAME=VALUE...]
 *
 *     name=p       the policy                key=k       the key; keys=N: k0, k1, ... in turn
 *     threads=1                              pause=0     microseconds between two calls of a thread
 *     verb=take    or many, all, wait, reserve, enter    cost=1, batch=16 (many)
 *     calls=0      by each thread; 0: until the end of stdin
 *     long=0       keys are padded to that many bytes
 *     inside=FILE  enter: counts the callers that are in, in a file that processes share
 *     hold=0       enter: microseconds to stay in
 *
 * On stdout each line is a JSON object: {"is":"ready"}; {"is":"log"} for every line of the
 * library's log; {"is":"phase"} when a line was read from stdin, which names the phase that ends
 * with it; "look" prints the counters only; {"is":"end"} with all grants when stdin has ended.
 * Times are CLOCK_MONOTONIC, which all processes of a machine share.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "call_record.h"

#define THREADS_MOST 64
#define BATCH_MOST   64
#define MS           INT64_C(1000000)
#define LAG_NAP_NS   (2 * MS)

/* Shared by processes: how many have entered and not left, and the most that ever were. */
struct inside {
    _Atomic int now, most;
};

static struct {
    const char *url, *limit, *name, *key, *verb, *inside;
    int64_t threads, keys, pause, cost, batch, calls, hold, fill;
} chosen = {
    .name = "p", .key = "k", .verb = "take", .threads = 1, .keys = 1, .cost = 1, .batch = 16};

static struct weir *engine;
static struct weir_policy *policy;
static struct inside *inside;
static struct call_record *records[THREADS_MOST];
static _Atomic bool over;
static _Atomic int64_t lag_ns, lag_most_ns; /* of the phase, and of all */
static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- Lines ----------------------------------------------------------------------------------- */

static void print_text(const char *text)
{
    (void)putchar('"');
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            (void)printf("\\%c", *text);
        else if ((unsigned char)*text < ' ' || (unsigned char)*text >= 127)
            (void)printf("\\u%04x", (unsigned char)*text);
        else
            (void)putchar(*text);
    (void)putchar('"');
}

static void print_remote(void)
{
    struct weir_remote_stats s;

    weir_remote_stats(engine, &s);
    (void)printf(",\"remote\":{\"remote\":%s,\"down\":%s", s.remote ? "true" : "false",
                 s.down ? "true" : "false");
#define NUMBER(x) (void)printf(",\"" #x "\":%llu", (unsigned long long)s.x)
    NUMBER(nodes);
    NUMBER(asked);
    NUMBER(failed);
    NUMBER(crowded);
    NUMBER(fell_back);
    NUMBER(fell_back_allowed);
    NUMBER(drained);
    NUMBER(outages);
    NUMBER(recoveries);
#undef NUMBER
    (void)putchar('}');
}

static void begin_line(const char *is)
{
    (void)pthread_mutex_lock(&out_lock);
    (void)printf("{\"is\":\"%s\",\"at_us\":%lld", is, (long long)(record_now() / 1000));
}

static void end_line(void)
{
    (void)puts("}");
    (void)fflush(stdout);
    (void)pthread_mutex_unlock(&out_lock);
}

static void print_log(void *arg, const char *line)
{
    (void)arg;
    begin_line("log");
    (void)printf(",\"line\":");
    print_text(line);
    end_line();
}

static void report_phase(const char *name)
{
    const bool look = strcmp(name, "look") == 0;
    struct call_tally t = {0};

    if (!look)
        t = record_sum(records, (int)chosen.threads, true);
    begin_line(look ? "look" : "phase");
    (void)printf(",\"name\":");
    print_text(name);
    print_remote();
    if (!look) {
        (void)printf(",\"lag_us\":%lld,", (long long)(atomic_exchange(&lag_ns, 0) / 1000));
        record_print(stdout, &t);
    }
    end_line();
}

static void report_end(void)
{
    const struct call_tally t = record_sum(records, (int)chosen.threads, false);

    begin_line("end");
    print_remote();
    (void)printf(",\"lag_us\":%lld,\"inside_most\":%d,", (long long)(lag_most_ns / 1000),
                 inside ? inside->most : 0);
    record_print(stdout, &t);
    (void)printf(",\"grants\":");
    record_print_grants(stdout, records, (int)chosen.threads);
    end_line();
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void rest(int64_t us)
{
    const struct timespec nap = {us / 1000000, us % 1000000 * 1000};

    if (us > 0)
        (void)nanosleep(&nap, NULL);
}

/* Keys of a call, each in a place of its own. */
static __thread char key_of[BATCH_MOST][WEIR_KEY_MAX];

static struct weir_request request(int place, uint64_t turn)
{
    char *key = key_of[place];
    int64_t len = chosen.keys > 1 ? snprintf(key, WEIR_KEY_MAX, "%s%llu", chosen.key,
                                             (unsigned long long)(turn % (uint64_t)chosen.keys))
                                  : snprintf(key, WEIR_KEY_MAX, "%s", chosen.key);

    for (; len < chosen.fill; len++)
        key[len] = '-';
    return (struct weir_request){policy, key, (size_t)len, chosen.cost, 0};
}

static void call_take(struct call_record *b, uint64_t turn)
{
    const struct weir_request rq = request(0, turn);
    const int64_t begin = record_now();
    struct weir_verdict v;
    const int error = weir_take(engine, &rq, &v);
    const int64_t end = record_now();

    record_write(b, error, &v, rq.cost, begin, end);
    record_time(b, begin, end);
}

static void call_many(struct call_record *b, uint64_t turn)
{
    struct weir_request rq[BATCH_MOST];
    struct weir_verdict v[BATCH_MOST];
    int64_t begin, end;
    int error;

    for (int64_t i = 0; i < chosen.batch; i++)
        rq[i] = request((int)i, turn * (uint64_t)chosen.batch + (uint64_t)i);
    begin = record_now();
    error = weir_take_many(engine, rq, (size_t)chosen.batch, v);
    end = record_now();
    for (int64_t i = 0; i < chosen.batch; i++)
        record_write(b, error && v[i].limit < 0 ? error : 0, &v[i], rq[i].cost, begin, end);
    record_time(b, begin, end);
}

/* Two keys; the second one is never refused. */
static void call_all(struct call_record *b, uint64_t turn)
{
    struct weir_request rq[2] = {request(0, turn), request(1, turn)};
    int64_t begin, end;
    struct weir_verdict v;
    int error;

    rq[1].key_len = (size_t)snprintf(key_of[1], WEIR_KEY_MAX, "beside %llu of %d",
                                     (unsigned long long)turn, (int)getpid());
    begin = record_now();
    error = weir_take_all(engine, rq, 2, &v);
    end = record_now();
    record_write(b, error, &v, chosen.cost, begin, end);
    record_time(b, begin, end);
}

/* A wait is not measured: it may be long. */
static void call_wait(struct call_record *b, uint64_t turn)
{
    const struct weir_request rq = request(0, turn);
    const int64_t begin = record_now();
    struct weir_verdict v;
    const int error = weir_wait(engine, &rq, weir_now(engine) + 500 * MS, &v);

    record_write(b, error, &v, rq.cost, begin, record_now());
}

/* Every other reservation is cancelled at once, and then does not count as a grant. */
static void call_reserve(struct call_record *b, uint64_t turn)
{
    const struct weir_request rq = request(0, turn);
    const int64_t begin = record_now();
    struct weir_reservation r;
    struct weir_verdict v;
    int64_t back = 0, end;
    int error = weir_reserve(engine, &rq, 1, &r, &v);

    end = record_now();
    record_time(b, begin, end);
    if (!error && v.allowed && turn % 2 == 0) {
        error = weir_cancel(engine, &r, &back);
        record_time(b, end, record_now());
    }
    if (back < rq.cost || error)
        record_write(b, error, &v, rq.cost - back, begin, end);
}

static void leave(struct call_record *b, struct weir_ticket *t)
{
    for (int tries = 0; tries < 1000; tries++) {
        const int64_t begin = record_now();
        const int error = weir_exit(engine, t, WEIR_SUCCESS);
        const int64_t end = record_now();

        record_time(b, begin, end);
        if (error == 0)
            return;
        record_write(b, error, NULL, 0, begin, end);
        rest(10000);
    }
}

static void call_enter(struct call_record *b, uint64_t turn)
{
    const struct weir_request rq = request(0, turn);
    const int64_t begin = record_now();
    struct weir_ticket t;
    struct weir_verdict v;
    const int error = weir_enter(engine, &rq, &t, &v);
    const int64_t end = record_now();

    record_write(b, error, &v, rq.cost, begin, end);
    record_time(b, begin, end);
    if (error || !v.allowed)
        return;
    if (inside) {
        const int now = atomic_fetch_add(&inside->now, 1) + 1;
        int most = inside->most;

        while (most < now && !atomic_compare_exchange_weak(&inside->most, &most, now))
            continue;
    }
    rest(chosen.hold);
    if (inside)
        (void)atomic_fetch_sub(&inside->now, 1);
    leave(b, &t);
}

static const struct hammer_verb {
    const char *name;
    void (*call)(struct call_record *b, uint64_t turn);
} VERBS[] = {{"take", call_take}, {"many", call_many},       {"all", call_all},
             {"wait", call_wait}, {"reserve", call_reserve}, {"enter", call_enter},
             {NULL, NULL}};

static void *hammer(void *arg)
{
    const struct hammer_verb *verb = VERBS;
    struct call_record *b = arg;

    while (strcmp(verb->name, chosen.verb) != 0)
        verb++;
    for (uint64_t turn = 0; !over && (chosen.calls == 0 || turn < (uint64_t)chosen.calls); turn++) {
        verb->call(b, turn);
        rest(chosen.pause);
    }
    return NULL;
}

/* How late this machine wakes a sleeping thread: callers are not to blame for that. */
static void *watch_lag(void *arg)
{
    (void)arg;
    while (!over) {
        const int64_t begin = record_now();
        int64_t late;

        rest(LAG_NAP_NS / 1000);
        late = record_now() - begin - LAG_NAP_NS;
        if (late > lag_ns)
            lag_ns = late;
        if (late > lag_most_ns)
            lag_most_ns = late;
    }
    return NULL;
}

/* ---- What is chosen -------------------------------------------------------------------------- */

static bool choose(const char *word)
{
    const struct {
        const char *name;
        const char **text;
        int64_t *number;
    } WORDS[] = {{"name", &chosen.name, NULL},       {"key", &chosen.key, NULL},
                 {"verb", &chosen.verb, NULL},       {"inside", &chosen.inside, NULL},
                 {"threads", NULL, &chosen.threads}, {"keys", NULL, &chosen.keys},
                 {"pause", NULL, &chosen.pause},     {"cost", NULL, &chosen.cost},
                 {"batch", NULL, &chosen.batch},     {"calls", NULL, &chosen.calls},
                 {"hold", NULL, &chosen.hold},       {"long", NULL, &chosen.fill}};
    const char *value = strchr(word, '=');

    for (size_t i = 0; value && i < sizeof WORDS / sizeof WORDS[0]; i++) {
        const size_t len = strlen(WORDS[i].name);

        if ((size_t)(value - word) != len || memcmp(word, WORDS[i].name, len) != 0)
            continue;
        if (WORDS[i].text)
            *WORDS[i].text = value + 1;
        else
            *WORDS[i].number = strtoll(value + 1, NULL, 10);
        return true;
    }
    return false;
}

static bool is_sound(void)
{
    const struct hammer_verb *verb = VERBS;

    while (verb->name && strcmp(verb->name, chosen.verb) != 0)
        verb++;
    return verb->name && chosen.threads >= 1 && chosen.threads <= THREADS_MOST &&
           chosen.batch >= 1 && chosen.batch <= BATCH_MOST && chosen.keys >= 1 &&
           chosen.fill <= WEIR_KEY_MAX;
}

static bool open_inside(void)
{
    const int fd = open(chosen.inside, O_RDWR | O_CREAT, 0600);

    if (fd < 0 || ftruncate(fd, sizeof *inside) != 0)
        return false;
    inside = mmap(NULL, sizeof *inside, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    return inside != MAP_FAILED;
}

static bool open_all(void)
{
    const struct weir_log log = {print_log, NULL};
    const struct weir_options o = {.store = chosen.url, .log = &log};
    const int64_t begin = record_now();
    struct weir_diag why = {0};

    if (chosen.inside && !open_inside()) {
        perror(chosen.inside);
        return false;
    }
    if (weir_open(&engine, &o, &why) != 0 ||
        weir_policy_set(engine, chosen.name, chosen.limit, &policy, &why) != 0) {
        (void)fprintf(stderr, "%s\n", why.text);
        return false;
    }
    begin_line("ready");
    (void)printf(",\"took_us\":%lld,\"now_us\":%lld", (long long)((record_now() - begin) / 1000),
                 (long long)(weir_now(engine) / 1000));
    print_remote();
    end_line();
    return true;
}

/* ---- All ------------------------------------------------------------------------------------- */

static void obey(void)
{
    char line[128];

    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        report_phase(line);
    }
}

static void run(void)
{
    pthread_t thread[THREADS_MOST + 1];

    for (int i = 0; i < chosen.threads; i++) {
        records[i] = malloc(sizeof *records[i]);
        if (!records[i])
            abort();
        record_init(records[i]);
    }
    for (int i = 0; i <= chosen.threads; i++)
        if (pthread_create(&thread[i], NULL, i < chosen.threads ? hammer : watch_lag,
                           i < chosen.threads ? records[i] : NULL) != 0)
            abort();
    if (chosen.calls == 0) {
        obey();
        over = true;
    }
    for (int i = 0; i < chosen.threads; i++)
        (void)pthread_join(thread[i], NULL);
    over = true;
    (void)pthread_join(thread[chosen.threads], NULL);
}

int main(int argc, char **argv)
{
    bool good = argc >= 3;

    for (int i = 3; i < argc; i++)
        good = choose(argv[i]) && good;
    if (!good || !is_sound()) {
        (void)fprintf(stderr, "usage: remote_hammer URL LIMIT [NAME=VALUE...]\n");
        return 2;
    }
    chosen.url = argv[1];
    chosen.limit = argv[2];
    if (!open_all())
        return 1;
    run();
    report_end();
    weir_close(engine);
    for (int i = 0; i < chosen.threads; i++) {
        free(records[i]->grant);
        free(records[i]);
    }
    return 0;
}
