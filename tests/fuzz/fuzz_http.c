/* Fuzzes the HTTP reader: the same bytes, however they are cut, give the same requests and the same
 * error. The first byte says how many lengths of pieces follow; the rest is what the client
 * sends. */
#include <stdint.h>

#include "http_talk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MOST = 2048, LONGEST = 8192 };
    static const unsigned char SINGLE[] = {0};
    const size_t cuts = size > 0 ? data[0] % 16 : 0;
    const char *bytes = (const char *)data + 1 + cuts;
    char *whole, *cut, *single;

    if (size < 1 + cuts || size > LONGEST)
        return 0;
    size -= 1 + cuts;
    whole = talk(bytes, size, MOST, NULL, 0, NULL);
    cut = talk(bytes, size, MOST, data + 1, cuts, NULL);
    single = talk(bytes, size, MOST, SINGLE, 1, NULL);
    if (strcmp(whole, cut) != 0 || strcmp(whole, single) != 0)
        abort();
    free(whole);
    free(cut);
    free(single);
    return 0;
}
