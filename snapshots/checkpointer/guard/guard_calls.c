/* Lets system calls that a capture interrupts continue as if there had been none.
 *
 * A task that is stopped in the middle of a call has left it: its registers hold a code for the kernel, which
 * would start the call again on the way back, or report EINTR if a handler of a signal has to run first. CRIU
 * decides that itself, for the captured task as well as for its copy: a call starts again though its signal came
 * meanwhile (pause(2) then waits forever), and what the kernel continues on its own account (poll, nanosleep)
 * fails with EINTR. Here
 *
 *   the captured task gets its code back, so that the kernel decides when it continues;
 *   calls that fail when they are interrupted, but have no limit of time that could be missed or prolonged, start
 *   again: epoll_wait, poll, sigwaitinfo, semop, and sleeps that keep their rest where they found their length;
 *   in the copy a call does not start again while a signal waits for its handler; a poll of some seconds does, though
 *   its timeout starts again: programs without a handler need not expect that it fails.
 *
 * Only where the registers are known: x86-64, tasks in 64-bit mode.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "guard.h"

/* include/linux/errno.h: never seen by programs. */
enum { RESTARTSYS = 512, RESTARTNOINTR = 513, RESTARTNOHAND = 514, RESTARTBLOCK = 516 };
/* Bytes of the instruction that enters the kernel. */
enum { INSTRUCTION = 2 };
/* Milliseconds by which a poll may return later in a copy than it would have. */
enum { LATE = 10000 };

#ifdef __x86_64__

typedef struct user_regs_struct registers;

static ptrace_call *libc_ptrace;

/* The call a task was in, and what the task is to get instead of what CRIU was given. Keyed by the low bits of
 * its id: one that loses its place to another starts its call again, as CRIU has it.
 */
static struct decided {
	pid_t task;
	unsigned long long call, code, ip;
} decisions[1 << 14];

/* The signals a task has handlers for, one bit each; all of them if that is not known. */
static uint64_t handled(pid_t task)
{
	unsigned long long caught = ~0ULL;
	char path[64], line[256];
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", task);
	status = fopen(path, "re");
	if (status == NULL)
		return caught;
	while (fgets(line, sizeof(line), status) != NULL && sscanf(line, "SigCgt: %llx", &caught) != 1)
		;
	fclose(status);
	return caught;
}

/* Whether a signal waits that is not blocked, and that a handler will be called for. Others end the task, stop
 * it, or come to nothing, as the end of a child does: then the kernel starts the call again.
 */
static int signal_waits(pid_t task)
{
	struct __ptrace_peeksiginfo_args which = { 0, 0, 32 };
	uint64_t blocked = 0;
	siginfo_t found[32];
	long count, each;

	for (which.flags = 0; which.flags <= PTRACE_PEEKSIGINFO_SHARED; which.flags++) {
		count = libc_ptrace(PTRACE_PEEKSIGINFO, task, &which, found);
		if (count > 0 && libc_ptrace(PTRACE_GETSIGMASK, task, (void *)sizeof(blocked), &blocked) < 0)
			return 1;
		for (each = 0; each < count; each++)
			if (!(blocked >> (found[each].si_signo - 1) & 1) &&
			    (handled(task) >> (found[each].si_signo - 1) & 1))
				return 1;
	}
	return 0;
}

/* Whether the same call once more does what the rest of this one would have done. */
static int can_start_again(const registers *now)
{
	switch (now->orig_rax) {
	case SYS_poll:
		return (int)now->rdx < 0;
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		return (int)now->r10 < 0;
#ifdef SYS_epoll_pwait2
	case SYS_epoll_pwait2:
#endif
	case SYS_semtimedop:
		return now->r10 == 0;
	case SYS_semop:
		return 1;
	case SYS_rt_sigtimedwait:
		return now->rdx == 0;
	case SYS_nanosleep:
		return now->rsi == now->rdi;
	case SYS_clock_nanosleep:
		return now->r10 == now->rdx;
	default:
		return 0;
	}
}

/* Whether that is so but for a limit of time that is prolonged a little. */
static int can_be_late(const registers *now)
{
	return now->orig_rax == SYS_poll && (int)now->rdx <= LATE;
}

static void on_read(pid_t task, registers *now)
{
	struct decided *kept = &decisions[(size_t)task % (sizeof(decisions) / sizeof(*decisions))];
	long long code = -(long long)now->rax;
	int again = can_start_again(now);

	if ((long long)now->orig_rax < 0)
		return;
	if (code == RESTARTBLOCK || code == EINTR) {
		if (code == EINTR && !again)
			return;
	} else if (code == RESTARTSYS || code == RESTARTNOINTR || code == RESTARTNOHAND) {
		again = 1;
	} else {
		return;
	}
	kept->task = task;
	kept->call = now->orig_rax;
	kept->ip = now->rip;
	kept->code = now->rax;
	if (again && (code == RESTARTBLOCK || code == EINTR))
		kept->code = (unsigned long long)-RESTARTNOHAND;
	if (!again && code == RESTARTBLOCK)
		again = can_be_late(now);
	if (again && (code == RESTARTNOINTR || !signal_waits(task))) {
		now->rax = now->orig_rax;
		now->rip -= INSTRUCTION;
	} else {
		now->rax = (unsigned long long)-EINTR;
	}
}

static void on_write(pid_t task, registers *now)
{
	const struct decided *kept = &decisions[(size_t)task % (sizeof(decisions) / sizeof(*decisions))];

	/* CRIU asks more than once, and a signal may have come in between: either answer is of the same call. */
	int again = now->rip == kept->ip - INSTRUCTION && now->rax == now->orig_rax;
	int failed = now->rip == kept->ip && (long long)now->rax == -EINTR;

	if ((long long)now->orig_rax >= 0 && kept->task == task && kept->call == now->orig_rax && (again || failed)) {
		now->rax = kept->code;
		now->rip = kept->ip;
	}
}

long ptrace_registers(ptrace_call *libc, enum __ptrace_request request, pid_t task, void *kind, void *data)
{
	struct iovec *area = data;
	registers changed;
	struct iovec instead = { &changed, sizeof(changed) };
	long result;

	libc_ptrace = libc;
	if ((unsigned long)kind != NT_PRSTATUS || area->iov_len != sizeof(registers))
		return libc(request, task, kind, data);
	if (request == PTRACE_SETREGSET) {
		changed = *(registers *)area->iov_base;
		on_write(task, &changed);
		move_to_calls(task, &changed);
		return libc(request, task, kind, &instead);
	}
	result = libc(request, task, kind, data);
	/* The kernel says how much there is: less in 32-bit mode. */
	if (result == 0 && area->iov_len == sizeof(registers))
		on_read(task, area->iov_base);
	return result;
}

#else

long ptrace_registers(ptrace_call *libc, enum __ptrace_request request, pid_t task, void *kind, void *data)
{
	return libc(request, task, kind, data);
}

#endif
