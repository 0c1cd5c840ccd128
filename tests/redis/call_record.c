/* The record of what callers saw. See call_record.h. */
#include "call_record.h"

#include <stdlib.h>
#include <time.h>

int64_t record_now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void record_init(struct call_record *b)
{
    *b = (struct call_record){.grants = 0};
    (void)pthread_mutex_init(&b->lock, NULL);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static int bucket_of(int64_t ns)
{
    const int power = ns < 8 ? 3 : 63 - __builtin_clzll((unsigned long long)ns);

    return 8 * (power - 3) + (int)(ns >> (power - 3) & 7);
}

static int64_t bucket_top(int bucket)
{
    return (INT64_C(9) + bucket % 8) << (bucket / 8);
}

static void count(struct call_tally *t, int error, const struct weir_verdict *v)
{
    t->calls++;
    if (error) {
        t->errors[-error]++;
    } else if (v->allowed) {
        t->granted++;
        t->grants_by[v->reason]++;
    } else {
        t->denied++;
        t->denials_by[v->reason]++;
    }
}

static void remember(struct call_record *b, struct grant g)
{
    if (b->grants == b->room) {
        b->room = b->room ? 2 * b->room : 1024;
        b->grant = realloc(b->grant, b->room * sizeof *b->grant);
        if (!b->grant)
            abort();
    }
    b->grant[b->grants++] = g;
}

void record_write(struct call_record *b, int error, const struct weir_verdict *v, int64_t cost,
                  int64_t begin_ns, int64_t end_ns)
{
    (void)pthread_mutex_lock(&b->lock);
    count(&b->phase, error, v);
    count(&b->whole, error, v);
    if (!error && v->allowed)
        remember(b, (struct grant){begin_ns, end_ns, v->limit, cost});
    (void)pthread_mutex_unlock(&b->lock);
}

static void measure(struct call_tally *t, int64_t ns)
{
    t->took[bucket_of(ns)]++;
    if (ns > t->worst_ns)
        t->worst_ns = ns;
}

void record_time(struct call_record *b, int64_t begin_ns, int64_t end_ns)
{
    (void)pthread_mutex_lock(&b->lock);
    measure(&b->phase, end_ns - begin_ns);
    measure(&b->whole, end_ns - begin_ns);
    (void)pthread_mutex_unlock(&b->lock);
}

/* ---- Telling --------------------------------------------------------------------------------- */

static void add(struct call_tally *to, const struct call_tally *from)
{
    to->calls += from->calls;
    to->granted += from->granted;
    to->denied += from->denied;
    for (int i = 0; i < RECORD_REASONS; i++) {
        to->grants_by[i] += from->grants_by[i];
        to->denials_by[i] += from->denials_by[i];
    }
    for (int i = 0; i < RECORD_ERRORS; i++)
        to->errors[i] += from->errors[i];
    for (int i = 0; i < RECORD_BUCKETS; i++)
        to->took[i] += from->took[i];
    if (from->worst_ns > to->worst_ns)
        to->worst_ns = from->worst_ns;
}

struct call_tally record_sum(struct call_record *const *record, int n, bool phase)
{
    struct call_tally sum = {0};

    for (int i = 0; i < n; i++) {
        (void)pthread_mutex_lock(&record[i]->lock);
        add(&sum, phase ? &record[i]->phase : &record[i]->whole);
        record[i]->phase = (struct call_tally){0};
        (void)pthread_mutex_unlock(&record[i]->lock);
    }
    return sum;
}

static int64_t quantile(const struct call_tally *t, int per_mille)
{
    uint64_t all = 0, seen = 0;

    for (int i = 0; i < RECORD_BUCKETS; i++)
        all += t->took[i];
    for (int i = 0; i < RECORD_BUCKETS; i++) {
        seen += t->took[i];
        if (seen > 0 && seen * 1000 >= all * (uint64_t)per_mille)
            return bucket_top(i) < t->worst_ns ? bucket_top(i) : t->worst_ns;
    }
    return 0;
}

static void print_reasons(FILE *out, const char *name, const uint64_t *by)
{
    const char *comma = "";

    (void)fprintf(out, ",\"%s\":{", name);
    for (int i = 0; i < RECORD_REASONS; i++)
        if (by[i] > 0) {
            (void)fprintf(out, "%s\"%s\":%llu", comma, weir_reason_name((enum weir_reason)i),
                          (unsigned long long)by[i]);
            comma = ",";
        }
    (void)fputc('}', out);
}

void record_print(FILE *out, const struct call_tally *t)
{
    const char *comma = "";

    (void)fprintf(out, "\"calls\":%llu,\"granted\":%llu,\"denied\":%llu",
                  (unsigned long long)t->calls, (unsigned long long)t->granted,
                  (unsigned long long)t->denied);
    print_reasons(out, "grants_by", t->grants_by);
    print_reasons(out, "denials_by", t->denials_by);
    (void)fprintf(out, ",\"p50_us\":%lld,\"p99_us\":%lld,\"worst_us\":%lld,\"errors\":{",
                  (long long)(quantile(t, 500) / 1000), (long long)(quantile(t, 990) / 1000),
                  (long long)(t->worst_ns / 1000));
    for (int i = 0; i < RECORD_ERRORS; i++)
        if (t->errors[i] > 0) {
            (void)fprintf(out, "%s\"%s\":%llu", comma, weir_error_name(-i),
                          (unsigned long long)t->errors[i]);
            comma = ",";
        }
    (void)fputc('}', out);
}

void record_print_grants(FILE *out, struct call_record *const *record, int n)
{
    const char *comma = "";

    (void)fputc('[', out);
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < record[i]->grants; k++) {
            const struct grant *g = &record[i]->grant[k];

            (void)fprintf(out, "%s[%lld,%lld,%lld,%lld]", comma, (long long)(g->begin_ns / 1000),
                          (long long)(g->end_ns + 999) / 1000, (long long)g->limit,
                          (long long)g->cost);
            comma = ",";
        }
    (void)fputc(']', out);
}
