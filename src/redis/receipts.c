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
    struct weir__receipts *receipts = calloc(1, sizeof *receipts);

    if (!receipts)
        return NULL;
    receipts->place = calloc(FIRST_PLACES, sizeof *receipts->place);
    if (!receipts->place) {
        free(receipts);
        return NULL;
    }
    receipts->places = FIRST_PLACES;
    receipts->sweep_at = FIRST_PLACES / 2;
    (void)pthread_mutex_init(&receipts->lock, NULL);
    return receipts;
}

void weir__receipts_close(struct weir__receipts *receipts)
{
    if (!receipts)
        return;
    for (size_t i = 0; i < receipts->places; i++)
        free(receipts->place[i]);
    free(receipts->place);
    (void)pthread_mutex_destroy(&receipts->lock);
    free(receipts);
}

void weir__receipts_forked(struct weir__receipts *receipts)
{
    (void)pthread_mutex_init(&receipts->lock, NULL);
}

/* ---- Room ------------------------------------------------------------------------------------ */

static void receipts_sweep(struct weir__receipts *receipts, int64_t now_ns)
{
    for (size_t i = 0; i < receipts->places; i++)
        if (receipts->place[i] && receipts->place[i]->until_ns < now_ns) {
            free(receipts->place[i]);
            receipts->place[i] = NULL;
            receipts->kept--;
        }
    receipts->sweep_at =
        receipts->kept * 2 < FIRST_PLACES / 2 ? FIRST_PLACES / 2 : receipts->kept * 2;
}

/* Doubles the places. Every number still names its place, for it has more bits than that. */
static void receipts_grow(struct weir__receipts *receipts)
{
    struct weir__redis_receipt **place = calloc(receipts->places * 2, sizeof *place);

    if (!place)
        return;
    for (size_t i = 0; i < receipts->places; i++)
        if (receipts->place[i])
            place[receipts->place[i]->id % (receipts->places * 2)] = receipts->place[i];
    free(receipts->place);
    receipts->place = place;
    receipts->places *= 2;
}

bool weir__receipts_have_room(struct weir__receipts *receipts, int64_t now_ns)
{
    bool room;

    (void)pthread_mutex_lock(&receipts->lock);
    if (receipts->kept >= receipts->sweep_at)
        receipts_sweep(receipts, now_ns);
    if (receipts->kept * 2 >= receipts->places && receipts->places < 2 * WEIR__RECEIPTS_MAX)
        receipts_grow(receipts);
    room = receipts->kept < WEIR__RECEIPTS_MAX && receipts->kept < receipts->places;
    (void)pthread_mutex_unlock(&receipts->lock);
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

uint64_t weir__receipts_keep(struct weir__receipts *receipts, struct weir__redis_receipt *k)
{
    uint64_t id = 0;

    (void)pthread_mutex_lock(&receipts->lock);
    if (receipts->kept < receipts->places) { /* a caller that checked for room finds it */
        while (receipts->place[receipts->look])
            receipts->look = (receipts->look + 1) % receipts->places;
        id = k->id = ++receipts->turn * 2 * WEIR__RECEIPTS_MAX + receipts->look;
        receipts->place[receipts->look] = k;
        receipts->kept++;
    }
    (void)pthread_mutex_unlock(&receipts->lock);
    if (id == 0)
        free(k);
    return id;
}

struct weir__redis_receipt *weir__receipts_remove(struct weir__receipts *receipts, uint64_t id)
{
    struct weir__redis_receipt *k;
    size_t i;

    (void)pthread_mutex_lock(&receipts->lock);
    i = id % receipts->places;
    k = receipts->place[i];
    if (k && k->id == id) {
        receipts->place[i] = NULL;
        receipts->kept--;
    } else {
        k = NULL;
    }
    (void)pthread_mutex_unlock(&receipts->lock);
    return k;
}
