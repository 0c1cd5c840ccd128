/* A moment in which nobody else uses the machine. */
#ifndef WEIR_BENCH_QUIET_H
#define WEIR_BENCH_QUIET_H

/* Waits until the cores are idle, but not for long: a run that begins while they are not is measured
 * all the same, and the samples say so ("noise"). */
void quiet_wait(const char *bench, const char *scene, int run);

#endif
