/* The barrier on systems that cannot impose one on other threads: each thread has its own. */
#include "os/barrier.h"

bool weir__barrier_known(void)
{
    return false;
}

void weir__barrier_everywhere(void)
{
}
