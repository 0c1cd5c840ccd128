/* Counting the keys that clients have open reservations of. See account_keys.h. */
#include "server/account/account_keys.h"

#include <assert.h>
#include <stdlib.h>

/* Where the key is, or would be added. Accounts are hashed with the store's secret. */
static struct account_key **key_at(struct account_keys *k, const struct account_counts *client,
                                   uint64_t account)
{
    const uint64_t chain = account + (uint64_t)(uintptr_t)client / sizeof *client;
    struct account_key **at = &k->chain[chain % ACCOUNT_KEY_CHAINS];

    while (*at && ((*at)->client != client || (*at)->account != account))
        at = &(*at)->next;
    return at;
}

bool account_keys_has(const struct account_keys *k, const struct account_counts *client,
                      uint64_t account)
{
    return *key_at((struct account_keys *)k, client, account) != NULL;
}

bool account_keys_add(struct account_keys *k, struct account_counts *client, uint64_t account)
{
    struct account_key **at = key_at(k, client, account);

    if (!*at) {
        *at = malloc(sizeof **at);
        if (!*at)
            return false;
        **at = (struct account_key){.client = client, .account = account};
        client->keys++;
    }
    (*at)->entries++;
    return true;
}

void account_keys_remove(struct account_keys *k, struct account_counts *client, uint64_t account)
{
    struct account_key **at = key_at(k, client, account), *key = *at;

    assert(key && key->entries > 0);
    if (--key->entries > 0)
        return;
    *at = key->next;
    client->keys--;
    free(key);
}
