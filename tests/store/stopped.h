/* A worker that is stopped in the middle of a decision. */
#ifndef WEIR_TESTS_STOPPED_H
#define WEIR_TESTS_STOPPED_H

#include <stdbool.h>

/* Stops one until it is caught holding a lock, and asks what the others get; prints a line. */
bool stopped_worker(void);
/* The same with a worker that changes a limit, while others decide under it. */
bool stopped_setter(void);

#endif
