/* Grace periods: the threads' records, and waiting for them. The idea is in readers.h.
 *
 * Records stand in a list that only grows, as long as the most threads there ever were at once. A
 * thread for which there is no memory joins the crowd: a counter of all such threads inside. It is
 * slower, and who waits for it waits until there are none at all; it is for the day when a thread
 * could be started and 64 bytes could not be had.
 */
#include "engine/readers.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/num.h"
#include "engine/barrier.h"

#define LOOKS_QUICK 100                    /* a reader is inside for nanoseconds ... */
#define LOOKS_YIELD 200                    /* ... unless it has lost the processor ... */
#define LOOK_NS     (50 * WEIR__NS_PER_US) /* ... for longer */

__thread struct weir__reader *weir__reader_self __attribute__((tls_model("initial-exec")));

static __thread unsigned crowd_depth __attribute__((tls_model("initial-exec")));
static _Atomic unsigned crowd; /* threads inside without a record */

static _Atomic(struct weir__reader *) records;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool ready; /* threads can be told from dead ones */
static bool fenced;

#if defined( \
    __SANITIZE_THREAD__) /* gcc warns that the sanitizer makes nothing of fences: nor need it */
#pragma GCC diagnostic ignored "-Wtsan"
#endif

void weir__readers_fence(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

/* ---- Records ------------------------------------------------------------------------------- */

static bool is_inside(uint64_t visits)
{
    return (visits & WEIR__VISIT_DEPTH) != 0;
}

static void leave(struct weir__reader *r)
{
    const uint64_t visits = atomic_load_explicit(&r->visits, memory_order_relaxed);

    if (is_inside(visits)) /* it died there */
        atomic_store_explicit(&r->visits, (visits | WEIR__VISIT_DEPTH) + 1, memory_order_release);
    atomic_store_explicit(&r->taken, false, memory_order_release);
}

static void thread_ends(void *record)
{
    weir__reader_self = NULL; /* a destructor after this one may still come in */
    leave(record);
}

static void child_begins(void)
{
    for (struct weir__reader *r = atomic_load(&records); r; r = r->next)
        if (r != weir__reader_self && atomic_load(&r->taken))
            leave(r);
    atomic_store(&crowd, crowd_depth > 0);
}

static void prepare(void)
{
    fenced = !weir__barrier_known();
    ready = pthread_key_create(&key, thread_ends) == 0;
    (void)pthread_atfork(NULL, NULL, child_begins);
}

static struct weir__reader *record_reuse(void)
{
    for (struct weir__reader *r = atomic_load_explicit(&records, memory_order_acquire); r;
         r = r->next) {
        bool taken = false;

        if (!atomic_load_explicit(&r->taken, memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(&r->taken, &taken, true, memory_order_acquire,
                                                    memory_order_relaxed))
            return r;
    }
    return NULL;
}

static struct weir__reader *record_make(void)
{
    struct weir__reader *r = aligned_alloc(alignof(struct weir__reader), sizeof *r);

    if (!r)
        return NULL;
    *r = (struct weir__reader){.fenced = fenced, .taken = true};
    r->next = atomic_load_explicit(&records, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&records, &r->next, r, memory_order_release,
                                                  memory_order_relaxed))
        continue;
    return r;
}

/* NULL: there is none to be had. */
static struct weir__reader *join(void)
{
    struct weir__reader *r;

    (void)pthread_once(&once, prepare);
    if (!ready)
        return NULL;
    r = record_reuse();
    if (!r)
        r = record_make();
    if (r && pthread_setspecific(key, r) != 0) {
        leave(r);
        return NULL;
    }
    return r;
}

void weir__readers_enter_slowly(void)
{
    if (crowd_depth == 0)
        weir__reader_self = join();
    if (weir__reader_self)
        weir__readers_enter();
    else if (crowd_depth++ == 0)
        (void)atomic_fetch_add(&crowd, 1);
}

void weir__readers_exit_slowly(void)
{
    assert(crowd_depth > 0);
    if (--crowd_depth == 0)
        (void)atomic_fetch_sub(&crowd, 1);
}

/* ---- Waiting ------------------------------------------------------------------------------- */

static void look_again(unsigned *looks)
{
    const struct timespec a_while = {.tv_nsec = LOOK_NS};

    ++*looks;
    if (*looks > LOOKS_YIELD)
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &a_while, NULL);
    else if (*looks > LOOKS_QUICK)
        (void)sched_yield();
}

static void wait_for(const struct weir__reader *r)
{
    const uint64_t seen = atomic_load_explicit(&r->visits, memory_order_acquire);
    uint64_t visits = seen;
    unsigned looks = 0;

    /* One that has left may be inside again: it has been out. */
    while (is_inside(seen) && visits / WEIR__VISIT_LEFT == seen / WEIR__VISIT_LEFT) {
        look_again(&looks);
        visits = atomic_load_explicit(&r->visits, memory_order_acquire);
    }
}

void weir__readers_wait(void)
{
    unsigned looks = 0;

    (void)pthread_once(&once, prepare);
    assert(crowd_depth == 0);
    assert(!weir__reader_self || !is_inside(atomic_load(&weir__reader_self->visits)));
    if (fenced)
        weir__readers_fence();
    else
        weir__barrier_everywhere();
    for (const struct weir__reader *r = atomic_load(&records); r; r = r->next)
        wait_for(r);
    while (atomic_load(&crowd) != 0)
        look_again(&looks);
}
