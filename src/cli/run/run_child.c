/* The command of `weir run`: started, waited for, and told of signals. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/run/run.h"

extern char **environ;

enum { EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127, EXIT_SIGNALLED = 128 };

static const int PASSED_ON[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};

/* The signals that are waited for, blocked from now on. */
static void block_signals(sigset_t *set, sigset_t *before)
{
    (void)sigemptyset(set);
    for (size_t i = 0; i < sizeof PASSED_ON / sizeof PASSED_ON[0]; i++)
        (void)sigaddset(set, PASSED_ON[i]);
    (void)sigaddset(set, SIGCHLD);
    /* The process that started this one may have ignored SIGCHLD: that would lose the status. */
    (void)signal(SIGCHLD, SIG_DFL);
    (void)sigprocmask(SIG_BLOCK, set, before);
}

/* 0, or an errno. The command has the signals that this one was started with. */
static int spawn(char **argv, const sigset_t *before, pid_t *pid)
{
    posix_spawnattr_t attributes;
    int error = posix_spawnattr_init(&attributes);

    if (error)
        return error;
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    (void)posix_spawnattr_setsigmask(&attributes, before);
    error = posix_spawnp(pid, argv[0], NULL, &attributes, argv, environ);
    (void)posix_spawnattr_destroy(&attributes);
    return error;
}

/* Waits for the command, and passes signals on. Those of the terminal come from the kernel, and the
 * command has got them already: it is in the same group of processes. */
static int await_child(pid_t pid, const sigset_t *set)
{
    for (;;) {
        siginfo_t info;
        int status;
        const int signum = sigwaitinfo(set, &info);

        if (signum == SIGCHLD && waitpid(pid, &status, WNOHANG) == pid)
            return status;
        if (signum > 0 && signum != SIGCHLD && info.si_code != SI_KERNEL)
            (void)kill(pid, signum);
    }
}

int run_child(char **argv, enum run_outcome *how)
{
    sigset_t set, before;
    pid_t pid;
    int error, status;

    block_signals(&set, &before);
    error = spawn(argv, &before, &pid);
    *how = RUN_NOT_STARTED;
    if (error) {
        (void)fprintf(stderr, "weir run: %s: %s\n", argv[0], strerror(error));
        return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
    }
    status = await_child(pid, &set);
    status = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_SIGNALLED + WTERMSIG(status);
    *how = status == 0 ? RUN_SUCCEEDED : RUN_FAILED;
    return status;
}
