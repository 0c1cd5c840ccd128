/* The simulated service: calls, workers, the queue before them, and the callers' patience. */
#include "sim/service.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "sim/agenda.h"
#include "sim/splitmix.h"
#include "sim/traffic.h"

#define SAMPLE_NS (100 * WEIR__NS_PER_MS)
#define NO_CALL   SIZE_MAX

enum {
    SERVICE_FINISH,
    SERVICE_TIMEOUT,
    SERVICE_ARRIVE
}; /* kinds on the agenda; at one time they happen in this order */

/* One call, from the time its caller asks to enter until no worker has it any more. Its index is
 * its name. */
struct service_call {
    int64_t offered_ns;
    uint64_t life;  /* how many calls had this index before: an old timeout has another */
    bool abandoned; /* its caller has left */
    size_t next;    /* in the queue, or in the list of free indices */
};

struct service {
    struct service_spec spec;
    struct traffic *traffic;
    struct summary *summary;
    struct sim_event arrival; /* the traffic's next */
    bool more, signals_cpu;
    int64_t now_ns;
    uint64_t random;
    struct agenda agenda;

    struct service_call *call;
    size_t calls, cap, free, first, last; /* first, last: of the queue */
    int64_t queued, busy;

    /* How busy the workers are: their time since the last sample, in worker x ns. */
    int64_t busy_ns, counted_ns, sample_ns, signaled_milli;
    char id[24], key[TRAFFIC_KEY_MAX];
};

struct service *service_open(const struct service_spec *spec, struct traffic *traffic,
                             struct summary *summary, bool tells_cpu)
{
    struct service *s = calloc(1, sizeof *s);
    struct sim_error none;

    if (!s)
        return NULL;
    s->spec = *spec;
    s->traffic = traffic;
    s->summary = summary;
    s->signals_cpu = tells_cpu;
    s->random = spec->seed;
    s->free = s->first = s->last = NO_CALL;
    s->signaled_milli = WEIR_NONE;
    s->more = traffic_next(traffic, &s->arrival, &none);
    return s;
}

void service_close(struct service *s)
{
    agenda_free(&s->agenda);
    free(s->call);
    free(s);
}

/* ---- Calls and their names ------------------------------------------------------------------- */

static size_t call_open(struct service *s)
{
    size_t i = s->free;

    if (i != NO_CALL) {
        s->free = s->call[i].next;
    } else {
        if (s->calls == s->cap) {
            const size_t cap = s->cap ? s->cap * 2 : 256;
            struct service_call *more = realloc(s->call, cap * sizeof *more);

            if (!more)
                return NO_CALL;
            s->call = more;
            s->cap = cap;
        }
        i = s->calls++;
        s->call[i].life = 0;
    }
    s->call[i].abandoned = false;
    s->call[i].offered_ns = s->now_ns;
    return i;
}

static void call_close(struct service *s, size_t i)
{
    s->call[i].life++;
    s->call[i].next = s->free;
    s->free = i;
}

static struct weir__slice id_of(struct service *s, size_t i)
{
    struct weir__out o = {s->id, sizeof s->id, 0};

    weir__out_int(&o, (int64_t)i);
    return (struct weir__slice){s->id, o.len};
}

static bool service_schedule(struct service *s, int64_t at_ns, int kind, size_t i)
{
    if (at_ns == INT64_MAX)
        return true;
    return agenda_add(&s->agenda, (struct agenda_item){.time_ns = at_ns,
                                                       .kind = kind,
                                                       .what = (void *)(uintptr_t)i,
                                                       .number = s->call[i].life});
}

/* ---- Workers --------------------------------------------------------------------------------- */

/* Counts the workers' time up to now; called before the number of busy ones changes. */
static void count_busy(struct service *s)
{
    if (s->signals_cpu)
        s->busy_ns += s->busy * (s->now_ns - s->counted_ns);
    s->counted_ns = s->now_ns;
}

static int64_t work_time(struct service *s)
{
    const int64_t spread = weir__mul_div(s->spec.time_ns, s->spec.jitter_milli, 1000);

    if (spread == 0)
        return s->spec.time_ns;
    return s->spec.time_ns - spread +
           (int64_t)(sim_random(&s->random) % (2 * (uint64_t)spread + 1));
}

static bool start_work(struct service *s, size_t i)
{
    count_busy(s);
    if (s->sample_ns <= s->now_ns) /* no samples are taken while all workers are idle */
        s->sample_ns = s->now_ns - s->now_ns % SAMPLE_NS + SAMPLE_NS;
    s->busy++;
    return service_schedule(s, weir__add_sat(s->now_ns, work_time(s)), SERVICE_FINISH, i);
}

static bool finish_work(struct service *s)
{
    const size_t i = s->first;

    count_busy(s);
    s->busy--;
    if (i == NO_CALL)
        return true;
    s->first = s->call[i].next;
    if (s->first == NO_CALL)
        s->last = NO_CALL;
    s->queued--;
    return start_work(s, i);
}

static void queue_up(struct service *s, size_t i)
{
    s->call[i].next = NO_CALL;
    *(s->last == NO_CALL ? &s->first : &s->call[s->last].next) = i;
    s->last = i;
    s->queued++;
}

/* Goes evenly from step to step while there is traffic, and then stays at the last. */
static int64_t error_ratio(const struct service *s)
{
    const int64_t steps = s->spec.errors - 1, all = s->traffic->end_ns;
    int64_t step, from, to, part;

    if (steps == 0 || s->now_ns >= all)
        return s->spec.error[steps];
    step = weir__mul_div(s->now_ns, steps, all);
    from = s->spec.error[step];
    to = s->spec.error[step + 1];
    part = weir__mul_div(s->now_ns, steps * 1000, all) - step * 1000; /* in thousandths */
    return from + (to - from) * part / 1000;
}

static enum weir_outcome service_draw_result(struct service *s)
{
    return (int64_t)(sim_random(&s->random) % 100000) < error_ratio(s) ? WEIR_ERROR : WEIR_SUCCESS;
}

/* ---- What happens ---------------------------------------------------------------------------- */

/* The caller leaves the guard. */
static bool service_leave(struct service *s, size_t i, enum weir_outcome how,
                          struct sim_event *event)
{
    summary_exited(s->summary, s->now_ns, how, s->now_ns - s->call[i].offered_ns);
    *event = (struct sim_event){
        .verb = SIM_EXIT, .timed = true, .time_ns = s->now_ns, .key = id_of(s, i), .how = how};
    return true;
}

static bool service_arrive(struct service *s, size_t i, struct sim_event *event,
                           struct sim_error *error)
{
    const bool room = s->busy < s->spec.workers || s->queued < s->spec.queue;

    if (!room) {
        (void)service_leave(s, i, WEIR_DROP, event);
        call_close(s, i);
        return true;
    }
    if (!service_schedule(s, weir__add_sat(s->now_ns, s->spec.timeout_ns), SERVICE_TIMEOUT, i))
        return sim_fail(error, "out of memory");
    if (s->busy >= s->spec.workers)
        queue_up(s, i);
    else if (!start_work(s, i))
        return sim_fail(error, "out of memory");
    return false;
}

static bool service_finish(struct service *s, size_t i, struct sim_event *event,
                           struct sim_error *error)
{
    const bool stayed = !s->call[i].abandoned;

    if (stayed)
        (void)service_leave(s, i, service_draw_result(s), event);
    call_close(s, i);
    if (!finish_work(s))
        return sim_fail(error, "out of memory");
    return stayed;
}

static bool service_time_out(struct service *s, size_t i, uint64_t life, struct sim_event *event)
{
    if (s->call[i].life != life)
        return false; /* the call ended in time */
    s->call[i].abandoned = true;
    return service_leave(s, i, WEIR_DROP, event);
}

static bool service_offer(struct service *s, struct sim_event *event, struct sim_error *error)
{
    const size_t i = call_open(s);

    if (i == NO_CALL)
        return sim_fail(error, "out of memory");
    summary_offered(s->summary, s->now_ns);
    *event = s->arrival;
    memcpy(s->key, event->key.at, event->key.len); /* traffic_next overwrites the original */
    event->key.at = s->key;
    event->id = id_of(s, i);
    s->more = traffic_next(s->traffic, &s->arrival, error);
    return error->text[0] == '\0';
}

static bool service_sample(struct service *s, struct sim_event *event)
{
    int64_t milli;

    count_busy(s);
    milli = s->busy_ns * 1000 / (s->spec.workers * SAMPLE_NS);
    s->busy_ns = 0;
    s->sample_ns += SAMPLE_NS;
    if (milli == s->signaled_milli)
        return false;
    s->signaled_milli = milli;
    *event = (struct sim_event){.verb = SIM_SIGNAL,
                                .timed = true,
                                .time_ns = s->now_ns,
                                .signals = {milli, SIM_SAME, SIM_SAME, SIM_SAME}};
    return true;
}

/* When the next sample is due; never while all workers are idle and the guard knows it. */
static int64_t sample_due(const struct service *s)
{
    const bool idle = s->busy == 0 && s->busy_ns == 0 && s->signaled_milli == 0;

    return s->signals_cpu && !idle ? s->sample_ns : INT64_MAX;
}

static int64_t service_next_due(const struct service *s)
{
    const struct agenda_item *first = agenda_first(&s->agenda);
    const int64_t arrival_ns = s->more ? s->arrival.time_ns : INT64_MAX;

    return weir__min(first ? first->time_ns : INT64_MAX, arrival_ns);
}

int64_t service_due(const struct service *s)
{
    const int64_t due = service_next_due(s);

    return due == INT64_MAX ? due : weir__min(due, sample_due(s));
}

bool service_step(struct service *s, struct sim_event *event, struct sim_error *error)
{
    const struct agenda_item *first = agenda_first(&s->agenda);
    struct agenda_item item;
    size_t i;

    error->text[0] = '\0';
    s->now_ns = service_due(s);
    if (sample_due(s) == s->now_ns)
        return service_sample(s, event);
    if (!first || first->time_ns > s->now_ns)
        return service_offer(s, event, error);
    item = *first;
    i = (size_t)(uintptr_t)item.what;
    agenda_drop_first(&s->agenda);
    if (item.kind == SERVICE_FINISH)
        return service_finish(s, i, event, error);
    if (item.kind == SERVICE_TIMEOUT)
        return service_time_out(s, i, item.number, event);
    return service_arrive(s, i, event, error);
}

bool service_decided(struct service *s, const struct sim_outcome *o, struct sim_error *error)
{
    int64_t i;

    if (o->state.len > 0)
        summary_state(s->summary, o);
    if (o->verb != SIM_ENTER)
        return true;
    summary_decided(s->summary, o);
    if (weir__parse_int(o->id, &i) != WEIR__NUMBER_OK)
        return true;
    if (!o->verdict.allowed) {
        call_close(s, (size_t)i);
        return true;
    }
    return service_schedule(s, weir__add_sat(o->time_ns, o->verdict.wait_ns), SERVICE_ARRIVE,
                            (size_t)i) ||
           sim_fail(error, "out of memory");
}
