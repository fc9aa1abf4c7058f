/* Makes twins, so that a session runs while its large heaps are still being written.
 *
 * CRIU writes memory while all tasks are stopped, 0.4 s for each gigabyte. Large heaps are hidden from it
 * (guard_heaps.c). Instead, at the end of a capture and while nothing runs, a process that has some gets a twin: a
 * child with a copy of its memory, copy on write, as fork(2) makes it. The session continues, the checkpointer reads
 * the heaps from the twins (twins.py), and then they end.
 *
 * A twin never runs an instruction of the program: its parent is traced, so it is born stopped. It is made to leave
 * the table of descriptors, so that what the program closes is closed. It ends with this process at the latest. The
 * program does not see that it had a child: the twin is made by an intermediate process in its memory (CLONE_VM),
 * which ends and is waited for in its name. The twin then is a child of the session's supervisor.
 *
 * The calls for that are put where the program has executable memory, as CRIU does it with its own.
 *
 * For each twin a line "twin PID TWIN" is added to the list of heaps. A heap whose process has none is read from the
 * process itself, before that continues.
 *
 * Where that is wanted, the kernel notes from the same moment on which pages of the heaps are written, so that the next
 * capture need not read the others: the heaps are registered with userfaultfd(2), and protected. A write only ends the
 * protection of its page; no one waits (UFFD_FEATURE_WP_ASYNC, Linux 6.7). The descriptor for that belongs to the
 * memory and not to its maker, so it is made by another intermediate process, with a table of descriptors of its own:
 * the program never has the descriptor. For each a line "memory PID DESCRIPTOR" is added to the list, with a descriptor
 * of this process. Without the line, nothing is noted.
 *
 * Only where the registers are known: x86-64, tasks in 64-bit mode.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard.h"

/* linux/userfaultfd.h of Linux 6.7. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

static pid_t twins[256];
static size_t twin_count;
static pid_t maker;

#ifdef __x86_64__

#include <sys/user.h>

typedef struct user_regs_struct registers;

/* linux/close_range.h, linux/ptrace.h */
enum { CLOSE_UNSHARED = 2, GET_RSEQ = 0x420f };
/* `syscall`, 2 bytes; `int3`, at which a traced task stops. */
static const unsigned long CALL = 0xcc050f, CALL_BYTES = 3, CALL_MASK = 0xffffff;

static ptrace_call *trace;

/* What a task has to get back. */
struct borrowed {
	pid_t task;
	registers state;
	uint64_t blocked;
	unsigned long code, was;
	/* Where its restartable sequence is noted, and the note (rseq(2)): the kernel drops it when the task runs. */
	unsigned long sequence_at, sequence;
};

static int move(enum __ptrace_request request, pid_t task, registers *state)
{
	struct iovec area = { state, sizeof(*state) };

	return trace(request, task, (void *)NT_PRSTATUS, &area) < 0 || area.iov_len != sizeof(*state) ? -1 : 0;
}

static long peek(pid_t task, unsigned long address, unsigned long *word)
{
	errno = 0;
	*word = (unsigned long)trace(PTRACE_PEEKDATA, task, (void *)address, NULL);
	return errno == 0 ? 0 : -1;
}

static void note_sequence(struct borrowed *one)
{
	struct { uint64_t at; uint32_t size, signature, flags, pad; } found;

	one->sequence_at = one->sequence = 0;
	if (trace((enum __ptrace_request)GET_RSEQ, one->task, (void *)sizeof(found), &found) < 0 || found.at == 0)
		return;
	if (peek(one->task, found.at + 8, &one->sequence) == 0)
		one->sequence_at = found.at + 8;
}

static int borrow(struct borrowed *one, pid_t task, unsigned long code)
{
	const uint64_t all = ~(1ULL << (SIGTRAP - 1));

	one->task = task;
	one->code = code;
	if (move(PTRACE_GETREGSET, task, &one->state) < 0 || peek(task, code, &one->was) < 0)
		return -1;
	note_sequence(one);
	if (trace(PTRACE_GETSIGMASK, task, (void *)sizeof(all), &one->blocked) < 0 ||
	    trace(PTRACE_POKEDATA, task, (void *)code, (void *)((one->was & ~CALL_MASK) | CALL)) < 0)
		return -1;
	return (int)trace(PTRACE_SETSIGMASK, task, (void *)sizeof(all), &all);
}

static int give_back(struct borrowed *one)
{
	int failed = trace(PTRACE_POKEDATA, one->task, (void *)one->code, (void *)one->was) < 0;

	if (one->sequence != 0)
		failed |= trace(PTRACE_POKEDATA, one->task, (void *)one->sequence_at, (void *)one->sequence) < 0;
	failed |= move(PTRACE_SETREGSET, one->task, &one->state) < 0;
	failed |= trace(PTRACE_SETSIGMASK, one->task, (void *)sizeof(one->blocked), &one->blocked) < 0;
	return failed ? -1 : 0;
}

/* Wait until a task has stopped, or ended; its status. */
static int status_of(pid_t task)
{
	int status = 0;

	while (waitpid(task, &status, __WALL) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

/* Have a task make a call; `failed` when it did not stop behind it. */
static long call(pid_t task, const struct borrowed *from, int *failed, long number, unsigned long first,
		 unsigned long second, unsigned long third)
{
	registers state = from->state;
	int status;

	state.rip = from->code;
	state.orig_rax = (unsigned long)-1;
	state.rax = (unsigned long)number;
	state.rdi = first;
	state.rsi = second;
	state.rdx = third;
	state.r10 = state.r8 = 0;
	if (move(PTRACE_SETREGSET, task, &state) < 0 || trace(PTRACE_CONT, task, NULL, NULL) < 0) {
		*failed = 1;
		return -1;
	}
	status = status_of(task);
	if (!WIFSTOPPED(status) || status >> 8 != SIGTRAP || move(PTRACE_GETREGSET, task, &state) < 0 ||
	    state.rip != from->code + CALL_BYTES) {
		/* A stop that no mask holds back (SIGSTOP): the task is to have it when it continues. */
		if (WIFSTOPPED(status) && status >> 8 != SIGTRAP && status >> 16 == 0)
			syscall(SYS_tkill, task, WSTOPSIG(status));
		*failed = 1;
		return -1;
	}
	return (long)state.rax;
}

/* A child of a traced task: traced as well, and stopped before its first instruction. Its parent does not stop to
 * report it (CLONE_UNTRACED), which would be in the middle of the call. */
static pid_t child_of(pid_t task, const struct borrowed *from, unsigned long flags)
{
	int failed = 0;
	long child = call(task, from, &failed, SYS_clone, flags | CLONE_PTRACE | CLONE_UNTRACED, 0, 0);

	if (failed || child <= 0)
		return -1;
	if (!WIFSTOPPED(status_of((pid_t)child)))
		return -1;
	/* CRIU has filters of system calls suspended for its tasks; a task without any needs no such option. */
	if (trace(PTRACE_SETOPTIONS, (pid_t)child, NULL, (void *)(PTRACE_O_EXITKILL | PTRACE_O_SUSPEND_SECCOMP)) < 0)
		trace(PTRACE_SETOPTIONS, (pid_t)child, NULL, (void *)PTRACE_O_EXITKILL);
	return (pid_t)child;
}

static void end(pid_t task)
{
	kill(task, SIGKILL);
	while (waitpid(task, NULL, __WALL) < 0 && errno == EINTR)
		;
}

/* The twin of a process that has given its state; 0: it could not be made. `failed`: the process may not be itself. */
static pid_t twin_of(pid_t pid, const struct borrowed *from, int *failed)
{
	const unsigned long same = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_SYSVSEM;
	pid_t between = child_of(pid, from, same), twin;
	int ignored = 0;

	if (between < 0)
		return 0;
	twin = child_of(between, from, CLONE_FILES | SIGCHLD);
	if (twin > 0 && call(twin, from, &ignored, SYS_close_range, 0, ~0U, CLOSE_UNSHARED) != 0) {
		end(twin);
		twin = 0;
	}
	end(between);
	if (call(pid, from, failed, SYS_wait4, (unsigned long)between, 0, __WALL) != between)
		*failed = 1;
	return twin > 0 ? twin : 0;
}

/* A descriptor for the memory of a process that has given its state; -1: there is none. */
static int memory_of(pid_t pid, const struct borrowed *from, int *failed)
{
	const unsigned long same = CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_SYSVSEM;
	pid_t between = child_of(pid, from, same);
	int ignored = 0, process, memory = -1;
	long theirs;

	if (between < 0)
		return -1;
	/* Its own table may be full. */
	if (call(between, from, &ignored, SYS_close_range, 0, ~0U, CLOSE_UNSHARED) == 0) {
		theirs = call(between, from, &ignored, SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY, 0, 0);
		process = theirs < 0 || ignored ? -1 : (int)syscall(SYS_pidfd_open, between, 0);
		if (process >= 0) {
			memory = (int)syscall(SYS_pidfd_getfd, process, theirs, 0);
			close(process);
		}
	}
	end(between);
	if (call(pid, from, failed, SYS_wait4, (unsigned long)between, 0, __WALL) != between)
		*failed = 1;
	return memory;
}

/* Have it noted which pages of a process's heaps are written from now on. */
static void track(pid_t pid, const struct borrowed *from, int *failed)
{
	struct uffdio_api asked = { .api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC };
	int memory = memory_of(pid, from, failed), noted;
	const struct heap *one;
	size_t each;

	if (memory < 0)
		return;
	noted = syscall(SYS_ioctl, memory, UFFDIO_API, &asked) == 0;
	for (each = 0; noted && (one = heap_at(each)) != NULL; each++) {
		const struct uffdio_range range = { one->start, one->end - one->start };
		struct uffdio_register added = { .range = range, .mode = UFFDIO_REGISTER_MODE_WP };
		struct uffdio_writeprotect all = { .range = range, .mode = UFFDIO_WRITEPROTECT_MODE_WP };

		noted = one->pid != pid || (syscall(SYS_ioctl, memory, UFFDIO_REGISTER, &added) == 0 &&
					    syscall(SYS_ioctl, memory, UFFDIO_WRITEPROTECT, &all) == 0);
	}
	if (noted)
		dprintf(heap_list(), "memory %d %d\n", pid, memory);
	else
		close(memory);
}

/* Whether every process is as it was. */
static int twin(pid_t pid, unsigned long code, unsigned long wishes)
{
	struct borrowed from;
	int failed = 0;
	pid_t made = 0;

	if (!(wishes & (WANTS_TWIN | WANTS_TRACKING)))
		return 1;
	if (borrow(&from, pid, code) < 0)
		return 0;
	/* Before its memory is copied: what is written in between counts as written. */
	if (wishes & WANTS_TRACKING)
		track(pid, &from, &failed);
	if (wishes & WANTS_TWIN && !failed)
		made = twin_of(pid, &from, &failed);
	if (made > 0) {
		twins[twin_count++] = made;
		dprintf(heap_list(), "twin %d %d\n", pid, made);
	}
	return give_back(&from) == 0 && !failed;
}

#else

static int twin(pid_t pid, unsigned long code, unsigned long wishes)
{
	(void)pid, (void)code, (void)wishes;
	return 1;
}

#endif

int make_twins(void)
{
	const struct heap *one;
	pid_t before = 0;
	size_t each;
	int whole = 1;

	*(void **)&trace = dlsym(RTLD_NEXT, "ptrace");
	maker = getpid();
	for (each = 0; whole && (one = heap_at(each)) != NULL && twin_count < sizeof(twins) / sizeof(*twins); each++)
		if (one->pid != before) {
			before = one->pid;
			whole = twin(one->pid, one->code, one->wishes);
		}
	return whole;
}

/* CRIU has ended its work, and the session is about to run. What comes after the answer is the end of all twins. */
__attribute__((destructor)) static void serve_twins(void)
{
	if (twin_count == 0 || maker != getpid())
		return;
	ask("twins");
	while (twin_count > 0)
		end(twins[--twin_count]);
}
