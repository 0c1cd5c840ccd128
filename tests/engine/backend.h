/* Where a test's engines keep their keys: in memory, in files of a directory that goes away with
 * the test, or in a Redis that was started for it. Most tests take the kind as an argument, so that
 * each test runs on all of them. */
#ifndef WEIR_TESTS_ENGINE_BACKEND_H
#define WEIR_TESTS_ENGINE_BACKEND_H

#include <stdbool.h>

#include <weir.h>

/* Sanitizers multiply memory and time, and some tests must know. */
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#ifndef UNDER_ASAN
#define UNDER_ASAN 0
#endif

/* "memory:", "file:", or the URL of a Redis (without options). False: no such kind. Called once,
 * before the others. */
bool backend_choose(const char *kind);
const char *backend_kind(void);
/* A Redis: it counts in microseconds, keeps keys of policies that are forgotten, and learns of a
 * changed limit when a key is touched. */
bool backend_is_remote(void);
int64_t backend_tick_ns(void); /* 1000 there, else 1 */

/* A new engine over an empty store of that kind; o->store is not looked at, o may be NULL. One that
 * cannot be opened ends the program. */
struct weir *backend_open(const struct weir_options *o);
/* Closes it. Its file goes too. */
void backend_close(struct weir *w);

/* The policy of that name; one that is refused ends the program. */
struct weir_policy *backend_policy(struct weir *w, const char *name, const char *limit,
                                   int64_t now_ns);

#endif
