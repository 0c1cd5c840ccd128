/* The trap flag: with it set, the processor traps after every instruction. The kernel clears it
 * while the signal is handled and sets it again when that returns.
 *
 * A breakpoint that is to be passed makes way for one step, and is put back by the trap after it.
 * While one is set, the handler calls no function that the deed may call: a trap within a trap is
 * the end of the process.
 *
 * A trap takes several microseconds, and a third of all instructions are in functions that only
 * compute (OVER), or clear private memory. Those are run at once, up to a breakpoint where they
 * return: a kill within one leaves behind what a kill before it does. */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "step.h"

#define TRAP_FLAG  0x100
#define BREAKPOINT 0xcc
#define PAGE       UINT64_C(4096)
#define ROOM       UINT64_C(0x10000) /* of the stack on both sides of its pointer */

extern const char __executable_start[], etext[]; /* the linker's: where our own code lies */
extern const char _end[];                        /* and where the heap begins */

#define OVERS_MOST 64

static const char *const OVER[] = {"weir__hash", "weir__slice_distance"}; /* of layer base: pure */

/* A breakpoint, and how often it is passed before it counts. */
struct stop {
    uintptr_t at;
    uint32_t passes;
};

/* The stepping process has one thread. */
static struct {
    const struct step_deed *deed;
    struct step_trace *trace; /* NULL: to die at `target` */
    char *shadow[STEP_WATCHES];
    size_t n, target;      /* the point that comes next; where to die */
    struct stop stop[2];   /* to be run to, one after the other; at 0: none */
    size_t first;          /* which point it is, once the last of them is reached */
    bool passing;          /* the first stop's breakpoint has made way for a step */
    unsigned char covered; /* what stood where the breakpoint is */
    gregset_t before;      /* the registers at the last point of a rehearsal */
    uintptr_t back;        /* where the function returns that is run at once; 0: none is */
} now;

/* Where the functions begin that are run at once: copies of one may be in many places. */
static uintptr_t over[OVERS_MOST];
static int overs;
static uintptr_t clears; /* where memset begins */

/* ---- Breakpoints ----------------------------------------------------------------------------- */

/* From now on the code there may be written, so that the handler need not ask for it. */
static void unprotect(const void *begin, const void *end)
{
    const uintptr_t page = (uintptr_t)begin & ~(PAGE - 1);

    if (mprotect((void *)page, (uintptr_t)end - page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        _exit(3);
}

static void breakpoint_set(void)
{
    volatile unsigned char *at = (unsigned char *)now.stop[0].at;

    now.covered = *at;
    *at = BREAKPOINT;
}

static void breakpoint_lift(void)
{
    *(volatile unsigned char *)now.stop[0].at = now.covered;
}

/* At the first stop. True if the process is to run on. */
static bool leave_stop(greg_t *regs)
{
    regs[REG_RIP]--;
    breakpoint_lift();
    if (now.stop[0].passes > 0) {
        now.stop[0].passes--;
        now.passing = true;
        regs[REG_EFL] |= TRAP_FLAG;
        return true;
    }
    now.stop[0] = now.stop[1];
    now.stop[1].at = 0;
    if (now.stop[0].at != 0)
        breakpoint_set();
    return now.stop[0].at != 0;
}

/* ---- Functions that are run at once ---------------------------------------------------------- */

/* The name of a copy goes on after a dot. */
static bool is_over(const char *name)
{
    for (size_t i = 0; i < sizeof OVER / sizeof *OVER; i++) {
        const size_t n = strlen(OVER[i]);

        if (strncmp(name, OVER[i], n) == 0 && (name[n] == '\0' || name[n] == '.'))
            return true;
    }
    return false;
}

static void find_in(const char *elf, const Elf64_Shdr *symbols, const Elf64_Shdr *names)
{
    const Elf64_Sym *s = (const Elf64_Sym *)(const void *)(elf + symbols->sh_offset);

    for (size_t i = 0; i < symbols->sh_size / sizeof *s && overs < OVERS_MOST; i++)
        if (ELF64_ST_TYPE(s[i].st_info) == STT_FUNC &&
            is_over(elf + names->sh_offset + s[i].st_name))
            over[overs++] = (uintptr_t)__executable_start + s[i].st_value;
}

/* By the symbols of this program. If it has none, everything is stepped through. */
static void find_overs(void)
{
    const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    const Elf64_Ehdr *elf;
    const Elf64_Shdr *section;
    struct stat st;

    clears = (uintptr_t)dlsym(RTLD_DEFAULT, "memset");
    if (fd < 0 || fstat(fd, &st) != 0)
        return;
    elf = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    (void)close(fd);
    if (elf == MAP_FAILED || elf->e_type != ET_DYN) /* only there are addresses from its start */
        return;
    section = (const Elf64_Shdr *)(const void *)((const char *)elf + elf->e_shoff);
    for (int i = 0; i < elf->e_shnum; i++)
        if (section[i].sh_type == SHT_SYMTAB)
            find_in((const char *)elf, &section[i], &section[section[i].sh_link]);
    (void)munmap((void *)(uintptr_t)elf, (size_t)st.st_size);
}

static bool is_ours(uintptr_t at)
{
    return at >= (uintptr_t)__executable_start && at < (uintptr_t)etext;
}

/* Whether all of these bytes are in one mapping that no process shares. */
static bool is_unshared(uintptr_t at, size_t bytes)
{
    static char maps[64 * 1024];
    const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got;

    while (fd >= 0 && n < sizeof maps - 1 && (got = read(fd, maps + n, sizeof maps - 1 - n)) > 0)
        n += (size_t)got;
    (void)close(fd);
    maps[n] = '\0';
    for (const char *line = maps; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        char *rest;
        const uintptr_t from = strtoul(line, &rest, 16), to = strtoul(rest + 1, &rest, 16);

        if (at >= from && at < to)
            return bytes <= to - at && rest[4] == 'p';
    }
    return false;
}

/* At a point: whether a function begins there that is run at once. */
static bool begins_over(const greg_t *regs)
{
    const uintptr_t at = (uintptr_t)regs[REG_RIP];
    uintptr_t back;

    for (int i = 0; i < overs; i++)
        if (over[i] == at)
            return true;
    if (at != clears || regs[REG_RDX] < 4096)
        return false;
    memcpy(&back, (const void *)(uintptr_t)regs[REG_RSP], sizeof back);
    return is_ours(back) && is_unshared((uintptr_t)regs[REG_RDI], (size_t)regs[REG_RDX]);
}

/* At its first instruction, where the stack's top is where it returns. */
static void run_over(greg_t *regs)
{
    volatile unsigned char *at;

    memcpy(&now.back, (const void *)(uintptr_t)regs[REG_RSP], sizeof now.back);
    at = (unsigned char *)now.back;
    now.covered = *at;
    *at = BREAKPOINT;
    regs[REG_EFL] &= ~TRAP_FLAG;
}

static void return_from_over(greg_t *regs)
{
    regs[REG_RIP]--;
    *(volatile unsigned char *)now.back = now.covered;
    now.back = 0;
    regs[REG_EFL] |= TRAP_FLAG;
}

/* ---- Points ---------------------------------------------------------------------------------- */

/* A register by its number in an instruction, as it was before the instruction. */
static uintptr_t register_before(int number)
{
    static const int AT[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                             REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                             REG_R12, REG_R13, REG_R14, REG_R15};

    return (uintptr_t)now.before[AT[number]];
}

/* Whether the address lies in our stack or heap. What is watched lies in neither; it may be mapped
 * at more addresses than one. */
static bool is_private(uintptr_t at)
{
    const uintptr_t stack = register_before(4);

    return at - (stack - ROOM) < 2 * ROOM || (at >= (uintptr_t)_end && at < (uintptr_t)sbrk(0));
}

/* The address that ModRM says, and a SIB byte if there is one, before its offset. */
static uintptr_t base_of(unsigned char rex, const unsigned char *modrm)
{
    const int rm = modrm[0] & 7, mod = modrm[0] >> 6, sib = modrm[1];
    const int index = (sib >> 3 & 7) + (rex & 2) * 4, base = (sib & 7) + (rex & 1) * 8;

    if (rm != 4)
        return register_before(rm + (rex & 1) * 8);
    return ((sib & 7) == 5 && mod == 0 ? 0 : register_before(base)) +
           (index == 4 ? 0 : register_before(index) << (sib >> 6));
}

static uintptr_t offset_of(const unsigned char *modrm)
{
    const int rm = modrm[0] & 7, mod = modrm[0] >> 6;
    const unsigned char *at = modrm + 1 + (rm == 4);
    int32_t wide;

    if (mod == 1)
        return (uintptr_t)(intptr_t)(signed char)*at;
    if (mod == 0 && !(rm == 4 && (modrm[1] & 7) == 5))
        return 0;
    memcpy(&wide, at, sizeof wide);
    return (uintptr_t)(intptr_t)wide;
}

/* Whether the operand is a register, or memory of our stack, our heap or, by an address relative to
 * the code, our data. */
static bool is_elsewhere(unsigned char rex, const unsigned char *modrm)
{
    if (modrm[0] >> 6 == 3 || (modrm[0] & 0xc7) == 5)
        return true;
    return is_private(base_of(rex, modrm) + offset_of(modrm));
}

/* Of the opcodes after 0x0f: jcc; cmov; nop; mov with zeros or with the sign; arithmetic and moves
 * to a register; moves of 16 bytes, and setcc, by their operand. */
static bool may_store_0f(unsigned char rex, const unsigned char *code)
{
    const unsigned char op = code[0];

    if ((op & 0xf0) == 0x80 || (op & 0xf0) == 0x40 || (op & 0xf6) == 0xb6)
        return false;
    if (memchr("\x10\x1f\x28\x6c\x6e\x6f\xaf\xbc\xbd\xef", op, 10))
        return false;
    return !(((op & 0xf0) == 0x90 || memchr("\x11\x29\x7f\xd6", op, 4)) &&
             is_elsewhere(rex, code + 1));
}

/* Whether the instruction there may have changed what is watched: false only if it certainly has
 * not, which is so for most of them. It writes to a register, to nothing, or to the stack or heap,
 * which are not watched. To compare only after the others finds the same changes in a fraction of
 * the time. */
static bool may_store(uintptr_t at)
{
    const unsigned char *code = (const unsigned char *)at;
    unsigned char op, rex = 0;
    bool elsewhere; /* of opcodes whose operand may be memory */

    if (*code == 0x66 || *code == 0xf3) /* of moves of 16 bytes, and of others */
        code++;
    if ((*code & 0xf0) == 0x40)
        rex = *code++;
    op = code[0];
    elsewhere = is_elsewhere(rex, code + 1);
    if (op == 0x0f)
        return may_store_0f(rex, code + 1);
    if (op < 0x40) /* add to cmp: to what ModRM says, from there, with a constant */
        return (op & 7) > 5 || ((op & 7) < 2 && op < 0x38 && !elsewhere);
    if (op < 0x60 || (op & 0xf0) == 0x70) /* push, pop; jcc */
        return false;
    if (memchr("\xa4\xa5\xaa\xab", op, 4)) /* movs, stos */
        return !is_private(register_before(7));
    if ((op & 0xf0) == 0xb0 || op == 0x69 || op == 0x6b) /* mov of a constant, imul */
        return false;
    /* mov to a register, lea, test, call, ret, jmp */
    if (memchr("\x63\x84\x85\x8a\x8b\x8d\xa8\xa9\xc3\xe8\xe9\xeb", op, 12))
        return false;
    /* add to cmp with a constant, mov, shifts, neg and its kind */
    return !elsewhere || !memchr("\x80\x81\x83\x88\x89\xc0\xc1\xc6\xc7\xd1\xd3\xf7", op, 12);
}

static bool watched_changed(void)
{
    bool changed = false;

    for (int i = 0; i < STEP_WATCHES && now.deed->watch[i].bytes > 0; i++)
        if (memcmp(now.shadow[i], now.deed->watch[i].at, now.deed->watch[i].bytes) != 0) {
            memcpy(now.shadow[i], now.deed->watch[i].at, now.deed->watch[i].bytes);
            changed = true;
        }
    return changed;
}

/* At a point. False: no more of them are wanted. */
static bool arrive(const greg_t *regs)
{
    const uintptr_t at = (uintptr_t)regs[REG_RIP];
    struct step_trace *t = now.trace;
    bool changed;

    if (!t && now.n == now.target)
        (void)kill(getpid(), SIGKILL);
    now.n++;
    if (!t)
        return true;
    if (t->n == t->cap) {
        t->whole = false;
        return false;
    }
    changed = (t->n == 0 || may_store(t->point[t->n - 1].at)) && watched_changed();
    memcpy(now.before, regs, sizeof now.before);
    t->point[t->n++] = (struct step_point){.at = at, .anchor = STEP_NO_ANCHOR, .changed = changed};
    return true;
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

    (void)sig, (void)info;
    if (now.back)
        return_from_over(regs);
    if (now.passing) {
        now.passing = false;
        breakpoint_set();
        regs[REG_EFL] &= ~TRAP_FLAG;
        return;
    }
    if (now.stop[0].at != 0) {
        if (leave_stop(regs))
            return;
        now.n = now.first;
        regs[REG_EFL] |= TRAP_FLAG;
    }
    if (!arrive(regs))
        regs[REG_EFL] &= ~TRAP_FLAG;
    else if (begins_over(regs))
        run_over(regs);
}

/* ---- Doing it -------------------------------------------------------------------------------- */

/* The stack is used below the red zone: what is there may be in use. */
static void trap_flag_on(void)
{
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
                     "lea 128(%%rsp), %%rsp" ::
                         : "memory", "cc");
}

static void trap_flag_off(void)
{
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\t"
                     "lea 128(%%rsp), %%rsp" ::
                         : "memory", "cc");
}

static void catch_traps(void)
{
    static char stack[64 * 1024];
    const stack_t aside = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    (void)sigaltstack(&aside, NULL);
    (void)sigaction(SIGTRAP, &action, NULL);
}

static int act_in_steps(void)
{
    int result;

    catch_traps();
    unprotect(__executable_start, etext);
    if (now.deed->from)
        unprotect(now.deed->from, (const char *)now.deed->from + 1);
    if (now.stop[0].at != 0)
        breakpoint_set();
    else
        trap_flag_on();
    result = now.deed->act(now.deed->arg);
    trap_flag_off();
    return result;
}

void step_rehearse(const struct step_deed *d, struct step_trace *t)
{
    t->n = 0;
    t->whole = true;
    now.deed = d;
    now.trace = t;
    now.stop[0].at = (uintptr_t)d->from;
    for (int i = 0; i < STEP_WATCHES && d->watch[i].bytes > 0; i++) {
        now.shadow[i] = malloc(d->watch[i].bytes);
        if (!now.shadow[i])
            _exit(3);
        memcpy(now.shadow[i], d->watch[i].at, d->watch[i].bytes);
    }
    t->result = act_in_steps();
}

void step_die_at(const struct step_deed *d, const struct step_trace *t, size_t k)
{
    const uint32_t anchor = t->point[k].anchor;
    int i = 0;

    now.deed = d;
    now.trace = NULL;
    now.target = k;
    if (d->from)
        now.stop[i++].at = (uintptr_t)d->from;
    if (anchor != STEP_NO_ANCHOR) {
        now.stop[i] = (struct stop){t->point[anchor].at, t->point[anchor].passes};
        now.first = anchor;
    }
    (void)act_in_steps();
}

/* ---- Anchors --------------------------------------------------------------------------------- */

struct occurrence {
    uintptr_t at;
    size_t point;
};

static int by_address(const void *a, const void *b)
{
    const struct occurrence *x = a, *y = b;

    return x->at != y->at ? (x->at > y->at) - (x->at < y->at)
                          : (x->point > y->point) - (x->point < y->point);
}

static void count_passes(struct step_trace *t)
{
    struct occurrence *o = malloc((t->n + 1) * sizeof *o);

    if (!o)
        abort();
    for (size_t i = 0; i < t->n; i++)
        o[i] = (struct occurrence){t->point[i].at, i};
    qsort(o, t->n, sizeof *o, by_address);
    for (size_t i = 1; i < t->n; i++)
        if (o[i].at == o[i - 1].at)
            t->point[o[i].point].passes = t->point[o[i - 1].point].passes + 1;
    free(o);
}

void step_index(struct step_trace *t)
{
    uint32_t anchor = STEP_NO_ANCHOR, cost = 0;

    count_passes(t);
    for (size_t i = 0; i < t->n; i++) {
        struct step_point *p = &t->point[i];

        cost++; /* a step from the point before */
        if (is_ours(p->at) && 2 * p->passes + 1 < cost) {
            anchor = (uint32_t)i;
            cost = 2 * p->passes + 1;
        }
        p->anchor = anchor;
        p->cost = cost;
    }
}

struct step_trace *step_trace_open(size_t cap)
{
    struct step_trace *t = mmap(NULL, sizeof *t + cap * sizeof t->point[0], PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (t == MAP_FAILED)
        abort();
    t->cap = cap;
    return t;
}

void step_trace_close(struct step_trace *t)
{
    (void)munmap(t, sizeof *t + t->cap * sizeof t->point[0]);
}

/* Two instructions, and a victim that must die at the second. */
static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

bool step_works(void)
{
    const struct step_deed d = {.act = nothing};
    struct step_trace *t = step_trace_open(1000);
    pid_t child;
    int status = 0;

    find_overs();
    child = fork();

    if (child == 0) {
        step_rehearse(&d, t);
        _exit(0);
    }
    (void)waitpid(child, &status, 0);
    step_index(t);
    if (status == 0 && t->n > 1) {
        child = fork();
        if (child == 0) {
            step_die_at(&d, t, t->n - 1);
            _exit(0);
        }
        (void)waitpid(child, &status, 0);
    }
    step_trace_close(t);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}
