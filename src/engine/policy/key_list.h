/* A list of keys and networks: what an allow or deny list of a policy is.
 *
 * A hash table of 64-bit hashes, with open addressing: 8 bytes for a slot, and no text. A key is
 * there by its hash under the store's secret. An entry that is an address or a network is there by
 * the hash of its bits, and the list knows which lengths its networks have. So a key that is an
 * address, in any spelling, or a network, as keys of IPv6 clients are (2001:db8:1:2::/64), is
 * looked up once for each of these lengths; any other key once.
 *
 * Readers are inside an RCU section; writers hold the store's lock. A slot changes as a whole: an
 * entry is added into a slot that was empty, and removed by a mark. A list that is too full is
 * copied into a larger one.
 */
#ifndef WEIR_ENGINE_POLICY_KEY_LIST_H
#define WEIR_ENGINE_POLICY_KEY_LIST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR__KEY_LIST_LENGTHS 3 /* words for the lengths 0 to 128 */

struct weir__key_list {
    uint64_t secret[2];
    uint64_t mask, filled; /* slots that are not empty */
    uint64_t n;            /* entries */
    _Atomic bool networks; /* some entry is an address or a network */
    _Atomic uint64_t four,
        six[WEIR__KEY_LIST_LENGTHS]; /* the lengths of networks, a bit for each */
    _Atomic uint64_t slot[];
};

/* An empty list with room for so many entries. NULL: out of memory. */
struct weir__key_list *weir__key_list_open(const uint64_t secret[2], uint64_t entries);
size_t weir__key_list_bytes(const struct weir__key_list *l);
/* Whether another entry fits without a larger list. */
bool weir__key_list_has_room(const struct weir__key_list *l);
/* A copy with room for so many entries. NULL: out of memory. */
struct weir__key_list *weir__key_list_copy(const struct weir__key_list *l, uint64_t entries);
/* True if the list had no such entry. There is room. */
bool weir__key_list_add(struct weir__key_list *l, const void *entry, size_t len);
/* True if the list had the entry. */
bool weir__key_list_remove(struct weir__key_list *l, const void *entry, size_t len);
/* Whether the list has that entry, as it was added. */
bool weir__key_list_holds(const struct weir__key_list *l, const void *entry, size_t len);

bool weir__key_list_search(const struct weir__key_list *l, const void *key, size_t len,
                           uint64_t hash);

/* Whether the key, whose hash under the secret is given, is on the list. NULL is an empty list. */
static inline bool weir__key_list_has(const struct weir__key_list *l, const void *key, size_t len,
                                      uint64_t hash)
{
    return l && weir__key_list_search(l, key, len, hash);
}

#endif
