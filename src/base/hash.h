/* SipHash-1-3: keys come from attackers, and a table keyed by a secret gives them nothing to aim
 * at. */
#ifndef WEIR_BASE_HASH_H
#define WEIR_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t weir__hash(const void *bytes, size_t len, const uint64_t secret[2]);

#endif
