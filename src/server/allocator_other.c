/* Another allocator than glibc's is left to itself. */
#include "server/memory.h"

void allocator_init(void)
{
}

void allocator_trim(void)
{
}
