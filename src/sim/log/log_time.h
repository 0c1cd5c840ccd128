/* The times that logs write. */
#ifndef WEIR_SIM_LOG_LOG_TIME_H
#define WEIR_SIM_LOG_LOG_TIME_H

#include "base/text.h"

/* LOG_TIME_AUTO tells them apart by their looks; a bare number by its size: below 10^11 seconds,
 * below 10^14 milliseconds, below 10^17 microseconds, else nanoseconds. */
enum log_clock {
    LOG_TIME_AUTO,
    LOG_TIME_S,
    LOG_TIME_MS,
    LOG_TIME_US,
    LOG_TIME_NS,
    LOG_TIME_ISO, /* 2015-05-17T10:05:03.25+02:00; also a blank for T, / for -, and no zone: UTC */
    LOG_TIME_CLF  /* 17/May/2015:10:05:03 +0000, with or without brackets */
};
#define LOG_CLOCK_WORDS "auto|s|ms|us|ns|iso|clf"

/* Nanoseconds since 1970, rounded down. False: not such a time, or before 1970, or past 2^62 ns. */
bool log_time_parse(struct weir__slice text, enum log_clock clock, int64_t *ns);

#endif
