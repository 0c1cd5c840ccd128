/* Waiting for an idle machine. */
#ifndef WEIR_BENCH_MICRO_IDLE_H
#define WEIR_BENCH_MICRO_IDLE_H

/* Waits until the cores are idle, but not for long: a run that starts on a busy machine is measured
 * all the same, and its samples say so ("noise"). */
void idle_wait(const char *bench, const char *scene, int run);

#endif
