/* A moment in which nobody else uses the machine. */
#ifndef WEIR_BENCH_MICRO_IDLE_H
#define WEIR_BENCH_MICRO_IDLE_H

/* Waits until the cores are idle, but not for long: a run that begins while they are not is measured
 * all the same, and the samples say so ("noise"). */
void idle_wait(const char *bench, const char *scene, int run);

#endif
