/* Traces every process a checkpointer makes, and holds all of them before some of their system calls.
 *
 *   stepper PID SEED RATE STRIDE PHASE LATE
 *
 * PID is the checkpointer, which is traced only for its forks. RATE: of a million; a call is held with
 * that chance the first time it is seen in a role, and with an nth of it the nth time, so that rare calls are not
 * lost among reads. If STRIDE is not 0, each call of the worker whose number leaves PHASE is held as well.
 *
 * LATE: milliseconds that a task is held which has made a connection again, before CRIU gives it the bytes that were
 * not read; all others go on meanwhile.
 *
 * For each held call a line is written: "stop NUMBER ROLE PID CALL NTH", and one letter is read: 'g' lets it
 * continue, 'k' kills the process. Until it is read, every traced process is stopped at its next call.
 * SIGTERM releases all; then there is a line "total WORKER HELPER CRIU TASK" of the calls seen.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PID_MAX = 1 << 22, CALLS = 512, MOST_LATE = 64 };
/* TASK: processes that CRIU makes without an exec, including the tasks of a restored session. */
enum role { NONE, MAIN, WORKER, HELPER, CRIU, TASK, ROLES };

static const char *const names[ROLES] = {"none", "main", "worker", "helper", "criu", "task"};
static unsigned char role_of[PID_MAX];
static unsigned long seen[ROLES][CALLS], total[ROLES];
static const long OPTIONS = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
			    PTRACE_O_TRACEEXEC;
static volatile sig_atomic_t over;
static unsigned long rate, stride, phase, late, stops;
static struct { pid_t pid; unsigned long due; } waiting[MOST_LATE];
static unsigned long long state;

static void end(int number)
{
	(void)number;
	over = 1;
}

static void tick(int number)
{
	(void)number; /* it interrupts a wait */
}

static unsigned long milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned long)now.tv_sec * 1000 + (unsigned long)now.tv_nsec / 1000000;
}

static unsigned long dice(void)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned long)(state >> 33) % 1000000;
}

static void resume(pid_t pid, int signal)
{
	ptrace(role_of[pid] == MAIN ? PTRACE_CONT : PTRACE_SYSCALL, pid, NULL, (void *)(long)signal);
}

/* The role of a process that was forked by another one. */
static enum role child_of(enum role parent)
{
	switch (parent) {
	case MAIN:
		return WORKER;
	case CRIU:
	case TASK:
		return TASK;
	default:
		return HELPER;
	}
}

static enum role executed(pid_t pid, enum role before)
{
	char path[64], program[512];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	length = readlink(path, program, sizeof(program) - 1);
	if (length <= 0)
		return before;
	program[length] = '\0';
	return strcmp(strrchr(program, '/'), "/criu") == 0 ? CRIU : before;
}

/* CRIU is about to trace the tasks it has restored, which only one can do. They wait for it. */
static void let_go_of_tasks(void)
{
	pid_t pid, found;
	int status;

	for (pid = 1; pid < PID_MAX; pid++) {
		if (role_of[pid] != TASK)
			continue;
		ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
		while ((found = waitpid(pid, &status, __WALL)) < 0 && errno == EINTR)
			;
		if (found == pid && WIFSTOPPED(status)) {
			int number = WSTOPSIG(status);
			int real = status >> 16 == 0 && number != (SIGTRAP | 0x80);
			ptrace(PTRACE_DETACH, pid, NULL, (void *)(long)(real ? number : 0));
		}
		role_of[pid] = NONE;
	}
}

static void hold(pid_t pid, enum role role, unsigned long call, unsigned long nth)
{
	char answer = 'g';
	ssize_t got;

	printf("stop %lu %s %d %lu %lu\n", ++stops, names[role], pid, call, nth);
	fflush(stdout);
	while ((got = read(0, &answer, 1)) < 0 && errno == EINTR && !over)
		;
	if (got == 0)	/* no one is there to answer */
		_exit(0);
	if (answer == 'k')
		kill(pid, SIGKILL);
}

static int fills_what_was_unread(pid_t pid, int number)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0), queue = TCP_NO_QUEUE;
	int fd = (int)syscall(SYS_pidfd_getfd, process, number, 0);
	socklen_t size = sizeof(queue);

	if (getsockopt(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue, &size) < 0)
		queue = TCP_NO_QUEUE;
	close(fd);
	close(process);
	return queue == TCP_RECV_QUEUE;
}

/* Whether the task waits. CRIU fills queues with send(2). */
static int is_late(pid_t pid, const struct __ptrace_syscall_info *info)
{
	int i;

	if (late == 0 || role_of[pid] != TASK || info->entry.nr != SYS_sendto || !fills_what_was_unread(pid, (int)info->entry.args[0]))
		return 0;
	for (i = 0; i < MOST_LATE; i++)
		if (waiting[i].pid == 0) {
			waiting[i].pid = pid;
			waiting[i].due = milliseconds() + late;
			return 1;
		}
	return 0;
}

static void resume_late(void)
{
	int i;

	for (i = 0; i < MOST_LATE; i++)
		if (waiting[i].pid != 0 && waiting[i].due <= milliseconds()) {
			resume(waiting[i].pid, 0);
			waiting[i].pid = 0;
		}
}

/* Whether it is held, and continues later. */
static int at_call(pid_t pid)
{
	struct __ptrace_syscall_info info;
	enum role role = role_of[pid];
	unsigned long nth;
	int lets_go;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) <= 0 || info.op != PTRACE_SYSCALL_INFO_ENTRY ||
	    info.entry.nr >= CALLS)
		return 0;
	if (role == CRIU && info.entry.nr == SYS_ptrace && info.entry.args[0] == PTRACE_SEIZE)
		let_go_of_tasks();
	nth = ++seen[role][info.entry.nr];
	total[role]++;
	/* Where tasks are released, any of them will do. */
	lets_go = info.entry.nr == SYS_ptrace && info.entry.args[0] == PTRACE_DETACH;
	if (dice() * (lets_go ? 1 : nth) < rate * (lets_go ? 5 : 1) || (stride > 0 && role == WORKER && total[role] % stride == phase))
		hold(pid, role, info.entry.nr, nth);
	return is_late(pid, &info);
}

static void stopped(pid_t pid, int status)
{
	int number = WSTOPSIG(status), event = status >> 16;
	unsigned long child = 0;

	if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) {
		ptrace(PTRACE_GETEVENTMSG, pid, NULL, &child);
		/* It may have been seen before, and even have executed another program. */
		if (child > 0 && child < PID_MAX && role_of[child] == NONE)
			role_of[child] = child_of(role_of[pid]);
		resume(pid, 0);
	} else if (event == PTRACE_EVENT_EXEC) {
		role_of[pid] = executed(pid, role_of[pid]);
		resume(pid, 0);
	} else if (event == PTRACE_EVENT_STOP) {
		/* A new one, or one that a signal was to stop. A process that continues the latter would not see that it is
		 * stopped, since a tracer holds it: it continues at once. */
		if (role_of[pid] == NONE) {
			/* Its parent has not reported it yet. */
			char path[64], line[512], *rest;
			FILE *file;
			int parent = 0;

			snprintf(path, sizeof(path), "/proc/%d/stat", pid);
			if ((file = fopen(path, "re")) != NULL) {
				if (fgets(line, sizeof(line), file) != NULL && (rest = strrchr(line, ')')) != NULL)
					sscanf(rest + 1, " %*c %d", &parent);
				fclose(file);
			}
			role_of[pid] = child_of(parent > 0 && parent < PID_MAX ? role_of[parent] : TASK);
		}
		resume(pid, 0);
	} else if (number == (SIGTRAP | 0x80)) {
		if (!at_call(pid))
			resume(pid, 0);
	} else {
		resume(pid, event == 0 ? number : 0);
	}
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = end}, ticks = {.sa_handler = tick};
	const struct itimerval often = {{0, 10000}, {0, 10000}};
	pid_t pid, first;
	int status;

	if (argc != 7)
		return 2;
	first = atoi(argv[1]);
	state = strtoull(argv[2], NULL, 10) + 1;
	rate = strtoul(argv[3], NULL, 10);
	stride = strtoul(argv[4], NULL, 10);
	phase = strtoul(argv[5], NULL, 10);
	late = strtoul(argv[6], NULL, 10);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGALRM, &ticks, NULL);
	if (late > 0)
		setitimer(ITIMER_REAL, &often, NULL);
	if (ptrace(PTRACE_SEIZE, first, NULL, (void *)OPTIONS) < 0) {
		perror("seize");
		return 1;
	}
	role_of[first] = MAIN;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	printf("ready\n");
	fflush(stdout);
	while (!over) {
		resume_late();
		pid = waitpid(-1, &status, __WALL);
		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			break;
		if (WIFSTOPPED(status))
			stopped(pid, status);
		else
			role_of[pid] = NONE;
	}
	printf("total %lu %lu %lu %lu\n", total[WORKER], total[HELPER], total[CRIU], total[TASK]);
	fflush(stdout);
	return 0;
}
