/* Seeding the random number generator of a thread; see random.h. */
#include "os/random.h"

#include <unistd.h>

#include "base/hash.h"
#include "os/clock.h"

__thread struct weir__random weir__random_self __attribute__((tls_model("initial-exec")));

void weir__random_seed(const uint64_t secret[2])
{
    static _Atomic uint64_t seeds;
    const uint64_t seed[] = {(uint64_t)getpid(), atomic_fetch_add(&seeds, 1),
                             (uint64_t)weir__clock_now()};

    weir__random_self.state = weir__hash(seed, sizeof seed, secret);
    weir__random_self.generation = weir__owner_private.number;
}
