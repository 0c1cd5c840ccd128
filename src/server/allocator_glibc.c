/* glibc keeps what was freed for the thread that freed it, and takes ever larger pieces into its heaps once such were
 * freed. So a daemon whose clients filled one thread's heap and then another's would have twice what it keeps.
 */
#include <malloc.h>

#include "server/memory.h"

void allocator_init(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, 128 * 1024); /* its default; to say it makes it stay */
    (void)mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
}

void allocator_trim(void)
{
    (void)malloc_trim(0);
}
