/* Numbers the clients: a hash table of numbers, and the keys' bytes in blocks that never move. */
#include "sim/replay/roster.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"

enum { CLIENTS_FIRST = 1024, BLOCK_BYTES = 1 << 20 };

struct roster_entry {
    uint32_t hash;
    uint32_t len;
    const char *key;
};

struct roster_block {
    struct roster_block *next;
    size_t used;
    char bytes[BLOCK_BYTES];
};

struct roster {
    uint32_t most, n, room;
    uint32_t *slot; /* number + 1; 0: empty. Twice `room`, a power of two. */
    struct roster_entry *client;
    struct roster_block *blocks;
    uint64_t secret[2]; /* the log's keys may have been chosen to collide */
};

struct roster *roster_open(uint32_t most)
{
    struct roster *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->most = most;
    c->room = CLIENTS_FIRST;
    c->slot = calloc(2 * (size_t)c->room, sizeof *c->slot);
    c->client = calloc(c->room, sizeof *c->client);
    if (c->slot && c->client && getentropy(c->secret, sizeof c->secret) == 0)
        return c;
    roster_close(c);
    return NULL;
}

void roster_close(struct roster *c)
{
    while (c->blocks) {
        struct roster_block *const next = c->blocks->next;

        free(c->blocks);
        c->blocks = next;
    }
    free(c->slot);
    free(c->client);
    free(c);
}

static void slot_put(uint32_t *slot, uint32_t mask, uint32_t hash, uint32_t number)
{
    uint32_t i = hash & mask;

    while (slot[i] != 0)
        i = (i + 1) & mask;
    slot[i] = number + 1;
}

static bool roster_grow(struct roster *c)
{
    const uint32_t room = 2 * c->room;
    struct roster_entry *const client = realloc(c->client, room * sizeof *client);
    uint32_t *const slot = client ? calloc(2 * (size_t)room, sizeof *slot) : NULL;

    c->client = client ? client : c->client;
    if (!slot)
        return false;
    for (uint32_t i = 0; i < c->n; i++)
        slot_put(slot, 2 * room - 1, c->client[i].hash, i);
    free(c->slot);
    c->slot = slot;
    c->room = room;
    return true;
}

static const char *keep_bytes(struct roster *c, struct weir__slice key)
{
    struct roster_block *b = c->blocks;

    if (!b || key.len > sizeof b->bytes - b->used) {
        b = malloc(sizeof *b);
        if (!b)
            return NULL;
        b->next = c->blocks;
        b->used = 0;
        c->blocks = b;
    }
    memcpy(b->bytes + b->used, key.at, key.len);
    b->used += key.len;
    return b->bytes + b->used - key.len;
}

uint32_t roster_find(struct roster *c, struct weir__slice key)
{
    const uint32_t hash = (uint32_t)weir__hash(key.at, key.len, c->secret);
    const uint32_t mask = 2 * c->room - 1;
    const char *bytes;

    for (uint32_t i = hash & mask; c->slot[i] != 0; i = (i + 1) & mask) {
        const struct roster_entry *const found = &c->client[c->slot[i] - 1];

        if (found->hash == hash && found->len == key.len &&
            memcmp(found->key, key.at, key.len) == 0)
            return c->slot[i] - 1;
    }
    if (c->n == c->most || (c->n == c->room && !roster_grow(c)))
        return CLIENT_NONE;
    bytes = keep_bytes(c, key);
    if (!bytes)
        return CLIENT_NONE;
    c->client[c->n] = (struct roster_entry){hash, (uint32_t)key.len, bytes};
    slot_put(c->slot, 2 * c->room - 1, hash, c->n);
    return c->n++;
}

struct weir__slice roster_key(const struct roster *c, uint32_t number)
{
    return (struct weir__slice){c->client[number].key, c->client[number].len};
}

uint32_t roster_count(const struct roster *c)
{
    return c->n;
}
