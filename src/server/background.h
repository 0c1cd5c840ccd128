/* Threads beside the loops of the workers: the log's writer, the readers of files. Each sleeps on a
 * condition until it is woken or a time has passed. */
#ifndef WEIR_SERVER_BACKGROUND_H
#define WEIR_SERVER_BACKGROUND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Starts a thread that hears no signals: they are for the threads that have a loop. 0, or an errno.
 */
int background_start(pthread_t *thread, void *(*run)(void *), void *arg);

/* A condition for background_wait, which a clock that is set does not disturb. */
void background_condition_init(pthread_cond_t *woken);

/* When to give up: ms from now. */
struct timespec background_deadline(int64_t ms);

/* Waits, with the lock held, until the condition is signalled or the time is over. False: it is. */
bool background_wait(pthread_cond_t *woken, pthread_mutex_t *lock, const struct timespec *until);

#endif
