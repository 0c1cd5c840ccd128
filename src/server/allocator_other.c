/* Another allocator than glibc's is left to itself. */
#include "server/memory.h"

void heap_init(void)
{
}

void heap_trim(void)
{
}
