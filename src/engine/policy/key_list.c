/* Lists of keys and networks. The idea is in key_list.h. */
#include "engine/policy/key_list.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/ip.h"

#define REMOVED  UINT64_C(1)
#define LEAST    8
#define TEXT_MAX 64 /* no address is longer */

static uint64_t entry_hash(uint64_t hash)
{
    return hash > REMOVED ? hash : hash + 2;
}

/* Keys of other meaning have other hashes, so a network is never taken for a key. */
static uint64_t network_hash(const struct weir__key_list *l, const struct weir__ip *ip)
{
    const uint64_t secret[2] = {l->secret[0] ^ UINT64_C(0x6e6574776f726b), l->secret[1]};
    unsigned char bytes[18];

    memcpy(bytes, ip->bytes, 16);
    bytes[16] = (unsigned char)ip->bits;
    bytes[17] = ip->four;
    return entry_hash(weir__hash(bytes, sizeof bytes, secret));
}

static uint64_t slots_for(uint64_t entries)
{
    uint64_t slots = LEAST;

    while (slots < entries + entries / 3 + 1)
        slots *= 2;
    return slots;
}

struct weir__key_list *weir__key_list_open(const uint64_t secret[2], uint64_t entries)
{
    const uint64_t slots = slots_for(entries);
    struct weir__key_list *l = calloc(1, sizeof *l + slots * sizeof l->slot[0]);

    if (!l)
        return NULL;
    memcpy(l->secret, secret, sizeof l->secret);
    l->mask = slots - 1;
    return l;
}

size_t weir__key_list_bytes(const struct weir__key_list *l)
{
    return l ? sizeof *l + (l->mask + 1) * sizeof l->slot[0] : 0;
}

bool weir__key_list_has_room(const struct weir__key_list *l)
{
    return (l->filled + 1) * 4 <= (l->mask + 1) * 3;
}

/* The slot of the hash, or the empty slot where it belongs. */
static uint64_t list_slot(const struct weir__key_list *l, uint64_t hash)
{
    uint64_t i = hash & l->mask;

    for (;; i = (i + 1) & l->mask) {
        const uint64_t there = atomic_load_explicit(&l->slot[i], memory_order_relaxed);

        if (there == hash || there == 0)
            return i;
    }
}

static bool list_holds(const struct weir__key_list *l, uint64_t hash)
{
    return atomic_load_explicit(&l->slot[list_slot(l, hash)], memory_order_relaxed) == hash;
}

static void list_put(struct weir__key_list *l, uint64_t hash)
{
    atomic_store_explicit(&l->slot[list_slot(l, hash)], hash, memory_order_release);
    l->filled++;
    l->n++;
}

struct weir__key_list *weir__key_list_copy(const struct weir__key_list *l, uint64_t entries)
{
    struct weir__key_list *copy = weir__key_list_open(l->secret, entries);

    if (!copy)
        return NULL;
    copy->networks = atomic_load(&l->networks);
    copy->four = atomic_load(&l->four);
    for (int i = 0; i < WEIR__KEY_LIST_LENGTHS; i++)
        copy->six[i] = atomic_load(&l->six[i]);
    for (uint64_t i = 0; i <= l->mask; i++)
        if (atomic_load(&l->slot[i]) > REMOVED)
            list_put(copy, atomic_load(&l->slot[i]));
    return copy;
}

/* ---- Entries ------------------------------------------------------------------------------- */

/* The hash of an entry, and whether it is a network. */
static uint64_t hash_of_entry(const struct weir__key_list *l, const void *entry, size_t len,
                              struct weir__ip *ip)
{
    if (len <= TEXT_MAX && weir__ip_read(entry, len, ip)) {
        (void)weir__ip_cut(ip, ip->bits);
        return network_hash(l, ip);
    }
    ip->bits = -1;
    return entry_hash(weir__hash(entry, len, l->secret));
}

static void note_length(struct weir__key_list *l, const struct weir__ip *ip)
{
    if (ip->four)
        atomic_fetch_or(&l->four, UINT64_C(1) << ip->bits);
    else
        atomic_fetch_or(&l->six[ip->bits / 64], UINT64_C(1) << ip->bits % 64);
    atomic_store(&l->networks, true);
}

bool weir__key_list_add(struct weir__key_list *l, const void *entry, size_t len)
{
    struct weir__ip ip;
    const uint64_t hash = hash_of_entry(l, entry, len, &ip);

    if (list_holds(l, hash))
        return false;
    if (ip.bits >= 0)
        note_length(l, &ip);
    list_put(l, hash);
    return true;
}

bool weir__key_list_remove(struct weir__key_list *l, const void *entry, size_t len)
{
    struct weir__ip ip;
    const uint64_t i = list_slot(l, hash_of_entry(l, entry, len, &ip));

    if (atomic_load(&l->slot[i]) == 0)
        return false;
    atomic_store_explicit(&l->slot[i], REMOVED, memory_order_release);
    l->n--;
    return true;
}

bool weir__key_list_holds(const struct weir__key_list *l, const void *entry, size_t len)
{
    struct weir__ip ip;

    return l && list_holds(l, hash_of_entry(l, entry, len, &ip));
}

/* ---- Searching ----------------------------------------------------------------------------- */

/* Whether some network of these lengths, bits of one word, contains the address. */
static bool has_network(const struct weir__key_list *l, const struct weir__ip *ip, uint64_t lengths,
                        int first)
{
    for (; lengths != 0; lengths &= lengths - 1) {
        struct weir__ip network = *ip;
        const int bits = first + __builtin_ctzll(lengths);

        if (bits > ip->bits)
            return false;
        (void)weir__ip_cut(&network, bits);
        if (list_holds(l, network_hash(l, &network)))
            return true;
    }
    return false;
}

bool weir__key_list_search(const struct weir__key_list *l, const void *key, size_t len,
                           uint64_t hash)
{
    struct weir__ip ip;

    if (list_holds(l, entry_hash(hash)))
        return true;
    if (!atomic_load_explicit(&l->networks, memory_order_acquire) || len > TEXT_MAX ||
        !weir__ip_read(key, len, &ip))
        return false;
    if (ip.four)
        return has_network(l, &ip, atomic_load(&l->four), 0);
    for (int i = 0; i < WEIR__KEY_LIST_LENGTHS; i++)
        if (has_network(l, &ip, atomic_load(&l->six[i]), 64 * i))
            return true;
    return false;
}
