/* Keys with open reservations, by client: how many entries of the book each has of a key.
 *
 * A client is told by the address of its counts, and a key by its account in the store. The caller
 * holds the lock of the book.
 */
#ifndef WEIR_SERVER_ACCOUNT_ACCOUNT_KEYS_H
#define WEIR_SERVER_ACCOUNT_ACCOUNT_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/memory.h"

#define ACCOUNT_KEY_CHAINS 8192

struct account_key {
    struct account_key *next;
    const struct account_counts *client;
    uint64_t account;
    unsigned entries;
};
#define ACCOUNT_KEY_BYTES (sizeof(struct account_key) + MEMORY_PIECE)

/* All 0: none. */
struct account_keys {
    struct account_key *chain[ACCOUNT_KEY_CHAINS];
};

bool account_keys_has(const struct account_keys *k, const struct account_counts *client,
                      uint64_t account);
/* One more entry; client->keys grows with the first. False: no memory. */
bool account_keys_add(struct account_keys *k, struct account_counts *client, uint64_t account);
/* One entry less, of those that were added. */
void account_keys_remove(struct account_keys *k, struct account_counts *client, uint64_t account);

#endif
