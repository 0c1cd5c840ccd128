/* RCU: the records of the threads, and waiting for readers. The idea is in rcu.h.
 *
 * Records are in a list that only grows; its length is the largest number of threads that ever
 * existed at once. A thread for whose record there is no memory is counted in `unregistered` while
 * it is inside. That is slower, and a writer waits until this counter is 0; it is for the rare case
 * that the system can start a thread but has no 64 bytes for it.
 */
#include "os/rcu.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/num.h"
#include "os/barrier.h"
#include "os/fork.h"

#define LOOKS_QUICK 100                    /* a reader is inside for nanoseconds: look at once */
#define LOOKS_YIELD 200                    /* it may have lost the processor: yield */
#define LOOK_NS     (50 * WEIR__NS_PER_US) /* it has lost the processor for longer: sleep */
#define STOP_NS     (5 * WEIR__NS_PER_S)   /* no reader stays inside for so long: see rcu.h */

__thread struct weir__rcu_reader *weir__rcu_self __attribute__((tls_model("initial-exec")));

static __thread unsigned unregistered_depth __attribute__((tls_model("initial-exec")));
static _Atomic unsigned unregistered; /* threads inside without a record */

static _Atomic(struct weir__rcu_reader *) records;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool ready;  /* the key exists, so the end of a thread is noticed */
static bool fenced; /* every reader executes its own barrier */

static _Atomic bool stopped; /* no reader may enter: another thread forks */
static __thread bool is_stopper __attribute__((tls_model("initial-exec")));

#if defined( \
    __SANITIZE_THREAD__) /* gcc warns that the sanitizer ignores fences; it need not see these */
#pragma GCC diagnostic ignored "-Wtsan"
#endif

static void rcu_fence(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

/* ---- Records ------------------------------------------------------------------------------- */

static bool rcu_is_inside(uint64_t sections)
{
    return (sections & WEIR__RCU_DEPTH) != 0;
}

static void rcu_reader_release(struct weir__rcu_reader *r)
{
    const uint64_t sections = atomic_load_explicit(&r->sections, memory_order_relaxed);

    if (rcu_is_inside(sections)) /* the thread ended while it was inside */
        atomic_store_explicit(&r->sections, (sections | WEIR__RCU_DEPTH) + 1, memory_order_release);
    atomic_store_explicit(&r->taken, false, memory_order_release);
}

static void rcu_thread_ends(void *record)
{
    weir__rcu_self = NULL; /* a destructor that runs after this one may still enter */
    rcu_reader_release(record);
}

static void rcu_prepare(void)
{
    fenced = !weir__barrier_known();
    ready = pthread_key_create(&key, rcu_thread_ends) == 0;
    weir__fork_prepare();
}

static struct weir__rcu_reader *rcu_reader_reuse(void)
{
    for (struct weir__rcu_reader *r = atomic_load_explicit(&records, memory_order_acquire); r;
         r = r->next) {
        bool taken = false;

        if (!atomic_load_explicit(&r->taken, memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(&r->taken, &taken, true, memory_order_acquire,
                                                    memory_order_relaxed))
            return r;
    }
    return NULL;
}

static struct weir__rcu_reader *rcu_reader_make(void)
{
    struct weir__rcu_reader *r = aligned_alloc(alignof(struct weir__rcu_reader), sizeof *r);

    if (!r)
        return NULL;
    *r = (struct weir__rcu_reader){.careful = fenced, .taken = true};
    r->next = atomic_load_explicit(&records, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&records, &r->next, r, memory_order_release,
                                                  memory_order_relaxed))
        continue;
    return r;
}

/* A record for this thread, reused or new. NULL: there is no memory for one. */
static struct weir__rcu_reader *rcu_reader_acquire(void)
{
    struct weir__rcu_reader *r;

    (void)pthread_once(&once, rcu_prepare);
    if (!ready)
        return NULL;
    r = rcu_reader_reuse();
    if (!r)
        r = rcu_reader_make();
    if (r && pthread_setspecific(key, r) != 0) {
        rcu_reader_release(r);
        return NULL;
    }
    return r;
}

/* ---- Entering ------------------------------------------------------------------------------ */

static void rcu_back_off(unsigned *looks)
{
    const struct timespec a_while = {.tv_nsec = LOOK_NS};

    ++*looks;
    if (*looks > LOOKS_YIELD)
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &a_while, NULL);
    else if (*looks > LOOKS_QUICK)
        (void)sched_yield();
}

static void rcu_wait_for_fork(void)
{
    unsigned looks = 0;

    while (atomic_load(&stopped))
        rcu_back_off(&looks);
}

static bool rcu_is_stopped(void)
{
    return atomic_load(&stopped) && !is_stopper;
}

__attribute__((noinline)) static void rcu_let_fork_pass(void)
{
    struct weir__rcu_reader *r = weir__rcu_self;
    uint64_t sections = atomic_load_explicit(&r->sections, memory_order_relaxed);

    if ((sections & WEIR__RCU_DEPTH) > 1) /* it was inside before: the fork waits for it */
        return;
    while (rcu_is_stopped()) {
        sections += WEIR__RCU_LEFT;
        atomic_store_explicit(&r->sections, sections - 1, memory_order_release);
        rcu_wait_for_fork();
        atomic_store_explicit(&r->sections, sections, memory_order_relaxed);
        rcu_fence();
    }
}

/* The caller has just entered. */
void weir__rcu_enter_carefully(void)
{
    rcu_fence();
    if (__builtin_expect(atomic_load(&stopped), 0))
        rcu_let_fork_pass();
}

static void rcu_enter_unregistered(void)
{
    (void)atomic_fetch_add(&unregistered, 1);
    while (rcu_is_stopped()) {
        (void)atomic_fetch_sub(&unregistered, 1);
        rcu_wait_for_fork();
        (void)atomic_fetch_add(&unregistered, 1);
    }
}

/* A record that is new in the list may be too late for weir__rcu_stop to find it: so the first
 * entry is always a careful one. */
void weir__rcu_enter_slowly(void)
{
    if (unregistered_depth == 0)
        weir__rcu_self = rcu_reader_acquire();
    if (!weir__rcu_self) {
        if (unregistered_depth++ == 0)
            rcu_enter_unregistered();
        return;
    }
    weir__rcu_enter();
    weir__rcu_enter_carefully();
}

void weir__rcu_exit_slowly(void)
{
    struct weir__rcu_reader *r = weir__rcu_self;

    if (r) {
        const uint64_t sections = atomic_load_explicit(&r->sections, memory_order_relaxed);

        assert((sections & WEIR__RCU_DEPTH) > 1);
        atomic_store_explicit(&r->sections, sections - 1, memory_order_release);
        return;
    }
    assert(unregistered_depth > 0);
    if (--unregistered_depth == 0)
        (void)atomic_fetch_sub(&unregistered, 1);
}

/* ---- Waiting ------------------------------------------------------------------------------- */

/* What the caller has written, and what every reader has, is visible to both from here on. */
static void rcu_barrier(void)
{
    if (fenced)
        rcu_fence();
    else
        weir__barrier_everywhere();
}

static bool rcu_self_is_inside(void)
{
    return unregistered_depth > 0 ||
           (weir__rcu_self && rcu_is_inside(atomic_load(&weir__rcu_self->sections)));
}

static void rcu_wait_for(const struct weir__rcu_reader *r)
{
    const uint64_t seen = atomic_load_explicit(&r->sections, memory_order_acquire);
    uint64_t sections = seen;
    unsigned looks = 0;

    /* A reader that has exited may be inside again: it has been outside, which is enough. */
    while (rcu_is_inside(seen) && sections / WEIR__RCU_LEFT == seen / WEIR__RCU_LEFT) {
        rcu_back_off(&looks);
        sections = atomic_load_explicit(&r->sections, memory_order_acquire);
    }
}

void weir__rcu_synchronize(void)
{
    unsigned looks = 0;

    (void)pthread_once(&once, rcu_prepare);
    assert(!rcu_self_is_inside());
    rcu_barrier();
    for (const struct weir__rcu_reader *r = atomic_load(&records); r; r = r->next)
        rcu_wait_for(r);
    while (atomic_load(&unregistered) != 0)
        rcu_back_off(&looks);
}

/* ---- Fork ---------------------------------------------------------------------------------- */

static void rcu_all_careful(bool careful)
{
    for (struct weir__rcu_reader *r = atomic_load(&records); r; r = r->next)
        atomic_store_explicit(&r->careful, careful, memory_order_release);
}

static bool rcu_others_are_inside(void)
{
    for (const struct weir__rcu_reader *r = atomic_load(&records); r; r = r->next)
        if (r != weir__rcu_self &&
            rcu_is_inside(atomic_load_explicit(&r->sections, memory_order_acquire)))
            return true;
    return atomic_load(&unregistered) != 0;
}

static bool rcu_is_alone(void)
{
    for (const struct weir__rcu_reader *r = atomic_load(&records); r; r = r->next)
        if (r != weir__rcu_self && atomic_load(&r->taken))
            return false;
    return atomic_load(&unregistered) == 0;
}

static int64_t rcu_clock(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * WEIR__NS_PER_S + t.tv_nsec;
}

void weir__rcu_stop(void)
{
    const int64_t give_up_ns = rcu_clock() + STOP_NS;
    unsigned looks = 0;

    (void)pthread_once(&once, rcu_prepare);
    if (rcu_self_is_inside())
        return;
    is_stopper = true;
    atomic_store(&stopped, true);
    if (rcu_is_alone()) /* a thread that comes now enters carefully, and waits */
        return;
    rcu_all_careful(true);
    rcu_barrier();
    while (rcu_others_are_inside() && rcu_clock() < give_up_ns)
        rcu_back_off(&looks);
}

void weir__rcu_resume(void)
{
    rcu_all_careful(fenced);
    is_stopper = false;
    atomic_store(&stopped, false);
}

void weir__rcu_forked(void)
{
    for (struct weir__rcu_reader *r = atomic_load(&records); r; r = r->next)
        if (r != weir__rcu_self && atomic_load(&r->taken))
            rcu_reader_release(r);
    atomic_store(&unregistered, unregistered_depth > 0);
    weir__rcu_resume();
}
