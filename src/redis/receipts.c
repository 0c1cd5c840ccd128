/* The table of receipts. See receipts.h. */
#include "redis/receipts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_PLACES 64 /* a power of two */

/* The lowest bits of a receipt's number are its place in the table. A new number is chosen for a
 * free place, so a lookup reads one place. */
struct weir__receipts {
    pthread_mutex_t lock;
    struct weir__redis_receipt **place;
    size_t places, kept;
    uint64_t turn;   /* the bits of a number above the place: counts up */
    size_t look;     /* where the search for the next free place begins */
    size_t sweep_at; /* how many receipts there may be before expired ones are dropped */
};

struct weir__receipts *weir__receipts_open(void)
{
    struct weir__receipts *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    m->place = calloc(FIRST_PLACES, sizeof *m->place);
    if (!m->place) {
        free(m);
        return NULL;
    }
    m->places = FIRST_PLACES;
    m->sweep_at = FIRST_PLACES / 2;
    (void)pthread_mutex_init(&m->lock, NULL);
    return m;
}

void weir__receipts_close(struct weir__receipts *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->places; i++)
        free(m->place[i]);
    free(m->place);
    (void)pthread_mutex_destroy(&m->lock);
    free(m);
}

void weir__receipts_forked(struct weir__receipts *m)
{
    (void)pthread_mutex_init(&m->lock, NULL);
}

/* ---- Room ------------------------------------------------------------------------------------ */

static void receipts_sweep(struct weir__receipts *m, int64_t now_ns)
{
    for (size_t i = 0; i < m->places; i++)
        if (m->place[i] && m->place[i]->until_ns < now_ns) {
            free(m->place[i]);
            m->place[i] = NULL;
            m->kept--;
        }
    m->sweep_at = m->kept * 2 < FIRST_PLACES / 2 ? FIRST_PLACES / 2 : m->kept * 2;
}

/* Doubles the places. Every number still names its place, for it has more bits than that. */
static void receipts_grow(struct weir__receipts *m)
{
    struct weir__redis_receipt **place = calloc(m->places * 2, sizeof *place);

    if (!place)
        return;
    for (size_t i = 0; i < m->places; i++)
        if (m->place[i])
            place[m->place[i]->id % (m->places * 2)] = m->place[i];
    free(m->place);
    m->place = place;
    m->places *= 2;
}

bool weir__receipts_have_room(struct weir__receipts *m, int64_t now_ns)
{
    bool room;

    (void)pthread_mutex_lock(&m->lock);
    if (m->kept >= m->sweep_at)
        receipts_sweep(m, now_ns);
    if (m->kept * 2 >= m->places && m->places < 2 * WEIR__RECEIPTS_MAX)
        receipts_grow(m);
    room = m->kept < WEIR__RECEIPTS_MAX && m->kept < m->places;
    (void)pthread_mutex_unlock(&m->lock);
    return room;
}

/* ---- Receipts -------------------------------------------------------------------------------- */

struct weir__redis_receipt *weir__redis_receipt_make(const struct weir_request *rq, size_t n)
{
    struct weir__redis_receipt *k;
    size_t bytes = sizeof *k + n * sizeof k->part[0];
    char *at;

    for (size_t i = 0; i < n; i++)
        bytes += rq[i].key_len;
    k = calloc(1, bytes);
    if (!k)
        return NULL;
    k->n = (int)n;
    at = (char *)(k->part + n);
    for (size_t i = 0; i < n; i++) {
        k->part[i].policy = rq[i].policy;
        k->part[i].cost = rq[i].cost;
        k->part[i].key = (struct weir__slice){at, rq[i].key_len};
        if (rq[i].key_len > 0)
            memcpy(at, rq[i].key, rq[i].key_len);
        at += rq[i].key_len;
    }
    return k;
}

uint64_t weir__receipts_keep(struct weir__receipts *m, struct weir__redis_receipt *k)
{
    uint64_t id = 0;

    (void)pthread_mutex_lock(&m->lock);
    if (m->kept < m->places) { /* a caller that checked for room finds it */
        while (m->place[m->look])
            m->look = (m->look + 1) % m->places;
        id = k->id = ++m->turn * 2 * WEIR__RECEIPTS_MAX + m->look;
        m->place[m->look] = k;
        m->kept++;
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (id == 0)
        free(k);
    return id;
}

struct weir__redis_receipt *weir__receipts_remove(struct weir__receipts *m, uint64_t id)
{
    struct weir__redis_receipt *k;
    size_t i;

    (void)pthread_mutex_lock(&m->lock);
    i = id % m->places;
    k = m->place[i];
    if (k && k->id == id) {
        m->place[i] = NULL;
        m->kept--;
    } else {
        k = NULL;
    }
    (void)pthread_mutex_unlock(&m->lock);
    return k;
}
