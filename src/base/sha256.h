/* SHA-256 (FIPS 180-4), for what must not be kept or compared as it is: tokens. */
#ifndef WEIR_BASE_SHA256_H
#define WEIR_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>

#define WEIR__SHA256_BYTES 32

void weir__sha256(const void *bytes, size_t len, unsigned char digest[WEIR__SHA256_BYTES]);

/* Compares digests in a time that does not depend on where they differ. */
bool weir__sha256_equal(const unsigned char a[WEIR__SHA256_BYTES],
                        const unsigned char b[WEIR__SHA256_BYTES]);

#endif
