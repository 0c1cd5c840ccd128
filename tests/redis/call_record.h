/* A record of what callers saw, written while they call: grants with their times, refusals,
 * errors, and how long each call took. Each thread has a record; a phase is what was written since
 * the last one was printed. */
#ifndef WEIR_TESTS_REDIS_CALL_RECORD_H
#define WEIR_TESTS_REDIS_CALL_RECORD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include <weir.h>

#define RECORD_BUCKETS 256
#define RECORD_ERRORS  16
#define RECORD_REASONS 16

/* A grant happened between these two times, by CLOCK_MONOTONIC. `limit` is from the verdict: it
 * distinguishes a share from the whole. */
struct grant {
    int64_t begin_ns, end_ns, limit, cost;
};

struct call_tally {
    uint64_t calls, granted, denied;
    uint64_t grants_by[RECORD_REASONS], denials_by[RECORD_REASONS]; /* by enum weir_reason */
    uint64_t errors[RECORD_ERRORS];                                 /* by -weir_error */
    uint64_t took[RECORD_BUCKETS]; /* eight buckets a power of two, of ns */
    int64_t worst_ns;
};

struct call_record {
    pthread_mutex_t lock;
    struct call_tally phase, whole;
    struct grant *grant;
    size_t grants, room;
};

int64_t record_now(void);

void record_init(struct call_record *b);
/* One call: its return value, and its verdict if that was 0. */
void record_write(struct call_record *b, int error, const struct weir_verdict *v, int64_t cost,
                  int64_t begin_ns, int64_t end_ns);
/* How long the call took, once for everything that was written about it. */
void record_time(struct call_record *b, int64_t begin_ns, int64_t end_ns);

/* Adds the records' phases, or their wholes, and begins another phase. */
struct call_tally record_sum(struct call_record *const *record, int n, bool phase);
/* As the members of a JSON object, without braces. */
void record_print(FILE *out, const struct call_tally *t);
/* [[begin_us, end_us, limit, cost], ...] */
void record_print_grants(FILE *out, struct call_record *const *record, int n);

#endif
