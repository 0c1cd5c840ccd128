/* A record of what callers saw, written while they call: grants with their times, refusals,
 * errors, and how long each call took. Each thread has a book; a phase is what was written since
 * the last one was printed. */
#ifndef WEIR_TESTS_REDIS_BOOK_H
#define WEIR_TESTS_REDIS_BOOK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include <weir.h>

#define BOOK_BUCKETS 256
#define BOOK_ERRORS  16
#define BOOK_REASONS 16

/* A grant happened between these two times, by CLOCK_MONOTONIC. `limit` is from the verdict: it
 * distinguishes a share from the whole. */
struct grant {
    int64_t begin_ns, end_ns, limit, cost;
};

struct book_tally {
    uint64_t calls, granted, denied;
    uint64_t grants_by[BOOK_REASONS], denials_by[BOOK_REASONS]; /* by enum weir_reason */
    uint64_t errors[BOOK_ERRORS];                               /* by -weir_error */
    uint64_t took[BOOK_BUCKETS]; /* eight buckets a power of two, of ns */
    int64_t worst_ns;
};

struct call_book {
    pthread_mutex_t lock;
    struct book_tally phase, whole;
    struct grant *grant;
    size_t grants, room;
};

int64_t book_now(void);

void book_init(struct call_book *b);
/* One call: its return value, and its verdict if that was 0. */
void book_write(struct call_book *b, int error, const struct weir_verdict *v, int64_t cost,
                int64_t begin_ns, int64_t end_ns);
/* How long the call took, once for everything that was written about it. */
void book_time(struct call_book *b, int64_t begin_ns, int64_t end_ns);

/* Adds the books' phases, or their wholes, and begins another phase. */
struct book_tally book_sum(struct call_book *const *book, int n, bool phase);
/* As the members of a JSON object, without braces. */
void book_print(FILE *out, const struct book_tally *t);
/* [[begin_us, end_us, limit, cost], ...] */
void book_print_grants(FILE *out, struct call_book *const *book, int n);

#endif
