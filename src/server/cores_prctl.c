/* No memory of the daemon goes to a core file: prctl. See internal.h. */
#include <sys/prctl.h>

#include "server/internal.h"

/* RLIMIT_CORE would not do: the kernel ignores it where cores go to a program's pipe. */
void cores_forbid(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}
