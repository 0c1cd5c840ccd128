/* Workers whose work leaves at a constant rate.
 *
 * Jobs come in bursts; the service they go to accepts at most 20 a second, evenly spread. A pacer
 * gives each job its turn, a twentieth of a second after the one before, and weir_wait sleeps until
 * then. However many workers there are, they share the turns.
 *
 * The key is where the jobs go: each destination has a pace of its own.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

enum { JOBS = 10, WORKERS = 2 };

static const char destination[] = "mail.example.com";

struct shop {
    struct weir *w;
    struct weir_policy *pace;
    int64_t opened_ns;
    atomic_int next_job;
};

static void *work(void *arg)
{
    struct shop *s = arg;
    int job;

    while ((job = atomic_fetch_add(&s->next_job, 1)) < JOBS) {
        const struct weir_request rq = weir_request_of(s->pace, destination, strlen(destination));
        struct weir_verdict v;
        const int err = weir_wait(s->w, &rq, WEIR_FOREVER, &v);

        /* With WEIR_FOREVER a refusal means never; a signal during the sleep is an error. */
        if (err || !v.allowed) {
            fprintf(stderr, "job %d: %s\n", job,
                    err ? weir_error_text(err) : weir_reason_name(v.reason));
            continue;
        }
        printf("%4lld ms: job %d leaves\n", (long long)(weir_now(s->w) - s->opened_ns) / 1000000,
               job);
    }
    return NULL;
}

/* A caller that needs an answer within 10 ms: its turn comes later, so it is refused at once. */
static void hurry(struct shop *s)
{
    const struct weir_request rq = weir_request_of(s->pace, destination, strlen(destination));
    const int64_t asked_ns = weir_now(s->w);
    struct weir_verdict v;

    if (weir_wait(s->w, &rq, asked_ns + 10000000, &v) == 0 && !v.allowed)
        printf("in a hurry: refused after %lld ms, the turn would have come later\n",
               (long long)(weir_now(s->w) - asked_ns) / 1000000);
}

int main(void)
{
    struct shop s = {0};
    struct weir_diag why;
    pthread_t worker[WORKERS];

    if (weir_open(&s.w, NULL, &why) != 0 ||
        weir_policy_set(s.w, "outgoing", "pacer 20/s", &s.pace, &why) != 0) {
        fprintf(stderr, "%s\n", why.text);
        return 1;
    }
    s.opened_ns = weir_now(s.w);
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&worker[i], NULL, work, &s) != 0)
            abort();
    for (int i = 0; i < WORKERS; i++)
        pthread_join(worker[i], NULL);
    hurry(&s);
    weir_close(s.w);
    return 0;
}
